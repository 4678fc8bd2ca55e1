// SPDX-License-Identifier: Apache-2.0
#include "allreduce/parsers/xml.hpp"

#include "harness/error.hpp"

namespace allreduce {

using harness::UsageError;

namespace {

// traverse() needs no stack.
struct Depth : pugi::xml_tree_walker {
  static constexpr int deepest = 64;
  bool for_each(pugi::xml_node&) override { return depth() <= deepest; }
};

}  // namespace

void load_xml(pugi::xml_document& document, const std::string& text) {
  const auto parsed = document.load_buffer(text.data(), text.size(), pugi::parse_default | pugi::parse_doctype);
  if (!parsed) {
    throw UsageError("the XML is broken at byte " + std::to_string(parsed.offset) + ": " + parsed.description());
  }
  for (const auto& node : document.children()) {
    if (node.type() == pugi::node_doctype) throw UsageError("it has a document type, which no such file needs");
  }
  Depth depth;
  if (!document.traverse(depth)) throw UsageError("it is nested deeper than " + std::to_string(Depth::deepest));
}

}  // namespace allreduce
