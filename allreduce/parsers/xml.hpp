// SPDX-License-Identifier: Apache-2.0
// XML that anyone may have written: entities are never expanded, and what would define some is refused.
#pragma once

#include <pugixml.hpp>
#include <string>

namespace allreduce {

// Throws harness::UsageError for what is broken, has a document type, or is nested deeper than 64.
void load_xml(pugi::xml_document& document, const std::string& text);

}  // namespace allreduce
