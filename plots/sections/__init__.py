# SPDX-License-Identifier: Apache-2.0
"""The sections of the page, in their order: (name for links, title, what makes its body). The body of a section that
has nothing to say is the empty string."""

from plots.sections import alone, learning, links, models, scaling, training, trust, validation

SECTIONS = (
    ("training", "The training step", training.steps),
    ("inside", "All-reduce alone and inside training", training.inside),
    ("timeline", "One step, from begin to end", training.timelines),
    ("scaling", "Scaling", scaling.scaling),
    ("alone", "All-reduce alone", alone.allreduce),
    ("choice", "Which algorithm where", alone.choice),
    ("collectives", "The other collectives alone", alone.collectives),
    ("fabrics", "PCIe, NVLink and other fabrics", links.fabrics),
    ("links", "Links", links.links),
    ("topology", "The topology, and how busy its links are", links.topologies),
    ("validation", "The simulation against what others measured", validation.validation),
    ("models", "The layers of a model, no communication", models.layers),
    ("learning", "What was learned", learning.learning),
    ("said", "What the results say, in words", trust.said),
    ("trust", "How far to trust it", trust.honesty),
    ("machine", "The machine", trust.machines),
    ("commands", "The commands", trust.commands),
)
