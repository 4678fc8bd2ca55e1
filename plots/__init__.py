# SPDX-License-Identifier: Apache-2.0
"""Pictures and words from result files. Knows the schema of results/README.md and nothing else of Ringmark."""
