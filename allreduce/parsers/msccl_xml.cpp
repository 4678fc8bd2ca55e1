// SPDX-License-Identifier: Apache-2.0
// Reads MSCCL's XML programs (msccl-tools, msccl/language/ir.py): a list of steps for each thread block of each device,
// with sends and receives of a connection matched in order. They are run through once, as far as dependencies allow,
// and what they do is recorded by a Builder. Input and output are one vector, in place; a chunk in MSCCL's scratch is
// told by whose it is, and becomes a copy or a reduce where it is used. rrs, which sends a sum without keeping it,
// keeps it.
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <tuple>
#include <vector>

#include "allreduce/builder.hpp"
#include "allreduce/parsers/xml.hpp"
#include "allreduce/schedule_file.hpp"
#include "harness/error.hpp"

namespace allreduce {

using harness::UsageError;

namespace {

// A chunk as it stood when it was sent: the rank's value is still the same as long as its version is.
struct Value {
  Rank rank = 0;
  int chunk = 0;
  int version = 0;
};

struct Step {
  std::string type, from, to;
  int from_at = 0, to_at = 0, count = 1, block = -1, step = -1;
};

struct Block {
  int send = -1, receive = -1, channel = 0;
  std::vector<Step> steps;
  std::size_t next = 0;
};

class XmlProgram {
 public:
  explicit XmlProgram(const pugi::xml_node& algo)
      : ranks_(algo.attribute("ngpus").as_int()), chunks_(algo.attribute("nchunksperloop").as_int()) {
    const std::string coll = algo.attribute("coll").as_string();
    if (coll != "allreduce") throw UsageError("its coll is '" + coll.substr(0, 30) + "', not allreduce");
    if (ranks_ < 1 || ranks_ > 1024 || chunks_ < 1 || chunks_ > 1 << 16) {
      throw UsageError("ngpus or nchunksperloop is out of range");
    }
    versions_.assign(ranks_, std::vector<int>(chunks_));
    scratch_.resize(ranks_);
    blocks_.resize(ranks_);
    for (const auto& gpu : algo.children("gpu")) {
      const int rank = gpu.attribute("id").as_int(-1);
      if (rank < 0 || rank >= ranks_) throw UsageError("a <gpu> has an id beyond ngpus");
      for (const auto& tb : gpu.children("tb")) {
        const int id = tb.attribute("id").as_int(-1);
        Block block{
            tb.attribute("send").as_int(-1), tb.attribute("recv").as_int(-1), tb.attribute("chan").as_int(), {}, 0};
        if (id < 0 || block.send >= ranks_ || block.receive >= ranks_)
          throw UsageError("a <tb> has an id or a peer of none");
        for (const auto& step : tb.children("step")) {
          block.steps.push_back({step.attribute("type").as_string(), step.attribute("srcbuf").as_string("i"),
                                 step.attribute("dstbuf").as_string("i"), step.attribute("srcoff").as_int(),
                                 step.attribute("dstoff").as_int(), step.attribute("cnt").as_int(1),
                                 step.attribute("depid").as_int(-1), step.attribute("deps").as_int(-1)});
        }
        if (!blocks_[rank].emplace(id, std::move(block)).second) throw UsageError("a <gpu> has two <tb> of one id");
      }
    }
  }

  Schedule run(const std::string& name) {
    Builder build(name.empty() ? "msccl" : name, {ranks_, 1, Placement::in_place}, chunks_);
    build_ = &build;
    for (bool moved = true; moved;) {
      moved = false;
      for (Rank rank = 0; rank < ranks_; ++rank) {
        for (auto& [id, block] : blocks_[rank]) {
          while (block.next < block.steps.size() && run_step(rank, block)) moved = true;
        }
      }
    }
    for (Rank rank = 0; rank < ranks_; ++rank) {
      for (const auto& [id, block] : blocks_[rank]) {
        if (block.next < block.steps.size()) {
          throw UsageError("gpu " + std::to_string(rank) + ", tb " + std::to_string(id) + ", step " +
                           std::to_string(block.next) + " waits for ever");
        }
      }
    }
    return std::move(build).finish();
  }

 private:
  using Values = std::vector<Value>;
  using Wire = std::tuple<Rank, Rank, int>;

  bool run_step(Rank rank, Block& block) {
    const Step& step = block.steps[block.next];
    if (step.block >= 0) {
      const auto other = blocks_[rank].find(step.block);
      if (other == blocks_[rank].end())
        throw UsageError("a step depends on tb " + std::to_string(step.block) + ", of none");
      if (static_cast<int>(other->second.next) <= step.step) return false;
    }
    if (step.count < 1 || step.count > chunks_) throw UsageError("a step has a cnt below 1, or beyond nchunksperloop");
    moved_ += step.count;
    if (moved_ > most_moved) throw UsageError("its steps move more than " + std::to_string(most_moved) + " chunks");
    const std::string& type = step.type;
    const bool receives = type == "r" || type.starts_with("rc") || type.starts_with("rr");
    const bool sends = type == "s" || type == "rcs" || type == "rrs" || type == "rrcs";
    Values values;
    if (receives) {
      auto& wire = wires_[Wire(block.receive, rank, block.channel)];
      if (block.receive < 0) throw UsageError("a step of type " + type + " stands in a tb that receives from none");
      if (wire.empty()) return false;
      values = wire.front();
      if (static_cast<int>(values.size()) != step.count) throw UsageError("a send and its receive differ in cnt");
      wire.pop_front();
    }
    if (type == "s" || type == "cpy" || type == "re") values = read(rank, step.from, step.from_at, step.count);
    if (type == "r" || type == "rcs" || type == "cpy") {
      store(rank, step.to, step.to_at, values);
    } else if (type == "re" || type == "rrc" || type == "rrs" || type == "rrcs") {
      // Received sums land at the destination, or, where none is kept, where the other summand stands.
      const bool kept = type != "rrs";
      add(rank, kept ? step.to : step.from, kept ? step.to_at : step.from_at, values);
    } else if (type != "s" && type != "nop") {
      throw UsageError("a step has the type '" + type.substr(0, 20) +
                       "'; known: s, r, rcs, rrs, rrc, rrcs, cpy, re, nop");
    }
    if (sends) {
      if (block.send < 0) throw UsageError("a step of type " + type + " stands in a tb that sends to none");
      if (type != "s") {
        const bool kept = type != "rrs";
        values = read(rank, kept ? step.to : step.from, kept ? step.to_at : step.from_at, step.count);
      }
      wires_[Wire(rank, block.send, block.channel)].push_back(values);
    }
    ++block.next;
    return true;
  }

  static bool is_data(const std::string& buffer) {
    if (buffer != "i" && buffer != "o" && buffer != "s")
      throw UsageError("a buffer is '" + buffer.substr(0, 20) + "', none of i, o, s");
    return buffer != "s";
  }

  Values read(Rank rank, const std::string& buffer, int first, int count) {
    check_place(first);
    Values values;
    for (int at = first; at < first + count; ++at) {
      if (is_data(buffer)) {
        check_chunk(at);
        values.push_back({rank, at, versions_[rank][at]});
      } else {
        const auto found = scratch_[rank].find(at);
        if (found == scratch_[rank].end())
          throw UsageError("scratch " + std::to_string(at) + " is read before it is written");
        values.push_back(found->second);
      }
    }
    return values;
  }

  void check_chunk(int chunk) const {
    if (chunk < 0 || chunk >= chunks_) throw UsageError("chunk " + std::to_string(chunk) + " is beyond nchunksperloop");
  }

  // The value must stand where it was taken from, and belong where it goes.
  void check_value(const Value& value, int to) const {
    if (versions_[value.rank][value.chunk] != value.version) {
      throw UsageError("chunk " + std::to_string(value.chunk) + " of gpu " + std::to_string(value.rank) +
                       " is overwritten while a copy of it waits: such programs are not read");
    }
    if (value.chunk != to) {
      throw UsageError("chunk " + std::to_string(value.chunk) + " goes to place " + std::to_string(to) +
                       ": such programs are not read");
    }
  }

  void store(Rank rank, const std::string& buffer, int first, const Values& values) {
    check_place(first);
    for (std::size_t at = 0; at < values.size(); ++at) {
      const int to = first + static_cast<int>(at);
      if (!is_data(buffer)) {
        scratch_[rank][to] = values[at];
        continue;
      }
      check_chunk(to);
      check_value(values[at], to);
      if (values[at].rank == rank) continue;
      build_->copy(build_->at(values[at].rank, to), rank);
      ++versions_[rank][to];
    }
  }

  void add(Rank rank, const std::string& buffer, int first, const Values& values) {
    check_place(first);
    for (std::size_t at = 0; at < values.size(); ++at) {
      const int to = first + static_cast<int>(at);
      if (!is_data(buffer)) throw UsageError("a sum is made in scratch: such programs are not read");
      check_chunk(to);
      check_value(values[at], to);
      if (values[at].rank == rank) throw UsageError("a chunk is added to itself");
      build_->reduce(build_->at(values[at].rank, to), rank);
      ++versions_[rank][to];
    }
  }

  // Also of scratch, whose size is told nowhere.
  static void check_place(int first) {
    if (first < 0 || first > most_places) throw UsageError("there is no offset " + std::to_string(first));
  }

  static constexpr int most_places = 1 << 20;
  static constexpr std::int64_t most_moved = 1 << 24;

  const int ranks_, chunks_;
  std::int64_t moved_ = 0;
  Builder* build_ = nullptr;
  std::vector<std::map<int, Block>> blocks_;  // of each rank
  std::vector<std::vector<int>> versions_;    // of each rank's chunks
  std::vector<std::map<int, Value>> scratch_;
  std::map<Wire, std::deque<Values>> wires_;
};

}  // namespace

Schedule read_msccl_xml(const std::string& text) {
  pugi::xml_document document;
  load_xml(document, text);
  const auto algo = document.document_element();
  if (std::string(algo.name()) != "algo") {
    throw UsageError("<" + std::string(algo.name()).substr(0, 40) + "> is no MSCCL program, whose root is <algo>");
  }
  return XmlProgram(algo).run(algo.attribute("name").as_string());
}

}  // namespace allreduce
