// SPDX-License-Identifier: Apache-2.0
// Reads `nvidia-smi topo -m` as people paste it: with colour codes, tabs or spaces, rows of network cards, a legend or
// none. The matrix says how far two devices are apart, not what lies between: a switch is inferred where devices (or a
// device and a network card) are joined by bridges alone, a socket where no inter-socket link is crossed.
#include <algorithm>
#include <cctype>
#include <functional>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <sstream>
#include <vector>

#include "allreduce/parsers/machine.hpp"
#include "harness/error.hpp"
#include "harness/text.hpp"

namespace allreduce {

using harness::UsageError;
using nlohmann::json;

namespace {

using Words = std::vector<std::string>;

constexpr std::size_t most_columns = 512;

struct Row {
  std::string name;
  Words cells;    // one a column
  Words further;  // CPU and NUMA affinity
};

struct Matrix {
  Words columns;
  std::vector<Row> rows;
};

Words words_of(const std::string& line) {
  std::istringstream stream(line);
  Words words;
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

// Without the sequences ESC [ numbers letter.
std::string without_colours(const std::string& text) {
  std::string plain;
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (text.compare(at, 2, "\x1b[") == 0) {
      const std::size_t end = text.find_first_not_of("0123456789;", at + 2);
      if (end != std::string::npos && std::isalpha(static_cast<unsigned char>(text[end]))) {
        at = end;
        continue;
      }
    }
    plain += text[at];
  }
  return plain;
}

bool is_gpu(const std::string& name) {
  return name.size() > 3 && name.starts_with("GPU") &&
         std::ranges::all_of(name.substr(3), [](unsigned char c) { return std::isdigit(c) != 0; });
}

bool is_distance(const std::string& cell) {
  static const std::set<std::string> known = {"X", "PIX", "PXB", "PHB", "NODE", "SYS", "SOC"};
  return known.contains(cell) || (cell.starts_with("NV") && harness::parse_integer(cell.substr(2), 1, 1000));
}

bool is_permission(const std::string& cell) {
  static const std::set<std::string> known = {"X", "OK", "CNS", "GNS", "TNS", "NS", "DR", "U"};
  return known.contains(cell);
}

// A matrix from the header on: its rows are the lines that begin with the name of a column.
Matrix read_matrix(const std::vector<Words>& lines, std::size_t header) {
  Matrix matrix;
  for (const std::string& word : lines[header]) {
    if (word == "CPU" || word == "NUMA" || word == "GPU") break;
    matrix.columns.push_back(word);
  }
  if (matrix.columns.size() > most_columns) {
    throw UsageError("the matrix has more than " + std::to_string(most_columns) + " columns");
  }
  const std::set<std::string> names(matrix.columns.begin(), matrix.columns.end());
  if (names.size() != matrix.columns.size()) throw UsageError("the header of the matrix names a column twice");
  for (std::size_t at = header + 1; at < lines.size(); ++at) {
    const Words& words = lines[at];
    if (words.empty()) continue;
    if (words.size() > 1 && is_gpu(words[0]) && is_gpu(words[1])) break;  // the next matrix
    if (!names.contains(words[0])) {
      if (is_gpu(words[0])) throw UsageError("row " + words[0] + " has no column of that name");
      continue;
    }
    Row row{words[0], {}, {}};
    for (std::size_t cell = 1; cell < words.size(); ++cell) {
      (row.cells.size() < matrix.columns.size() ? row.cells : row.further).push_back(words[cell]);
    }
    if (std::ranges::any_of(matrix.rows, [&](const Row& other) { return other.name == row.name; })) break;
    matrix.rows.push_back(std::move(row));
  }
  return matrix;
}

// A row, where it must be whole; cells by column.
void check(const Matrix& matrix, const std::function<bool(const std::string&)>& known) {
  std::map<std::pair<std::string, std::string>, std::string> cells;
  for (const std::string& column : matrix.columns) {
    if (!is_gpu(column)) continue;
    const auto row = std::ranges::find(matrix.rows, column, &Row::name);
    if (row == matrix.rows.end()) throw UsageError("row " + column + " is missing: the matrix is cut off");
    for (std::size_t at = 0; at < matrix.columns.size(); ++at) {
      if (at >= row->cells.size()) {
        throw UsageError("row " + column + " has " + std::to_string(row->cells.size()) + " of " +
                         std::to_string(matrix.columns.size()) + " cells: the matrix is cut off");
      }
      if (!known(row->cells[at])) {
        throw UsageError("row " + column + ": '" + row->cells[at].substr(0, 20) + "' under " + matrix.columns[at] +
                         " is none of X, NV1, PIX, PXB, PHB, NODE, SYS");
      }
      cells[{column, matrix.columns[at]}] = row->cells[at];
    }
  }
  for (const auto& [place, cell] : cells) {
    if (!is_gpu(place.second)) continue;
    if ((place.first == place.second) != (cell == "X")) {
      throw UsageError("row " + place.first + ": X stands where a device meets itself, and only there");
    }
    if (cells.at({place.second, place.first}) != cell) {
      throw UsageError("row " + place.first + " says " + cell + " to " + place.second + ", row " + place.second +
                       " says " + cells.at({place.second, place.first}));
    }
  }
}

// Devices that are joined, each group with the number of its first.
class Groups {
 public:
  explicit Groups(int count) : parent_(count) { std::iota(parent_.begin(), parent_.end(), 0); }
  int of(int at) const {
    while (parent_[at] != at) at = parent_[at];
    return at;
  }
  void join(int one, int other) { parent_[std::max(of(one), of(other))] = std::min(of(one), of(other)); }

 private:
  std::vector<int> parent_;
};

class MatrixReader {
 public:
  MatrixReader(const Matrix& matrix, const std::string& text) : matrix_(matrix) {
    for (const std::string& column : matrix.columns) {
      if (is_gpu(column)) gpus_.push_back(*std::ranges::find(matrix.rows, column, &Row::name));
    }
    const int count = size();
    nvlinks_.assign(count, std::vector<int>(count));
    for (int one = 0; one < count; ++one) {
      for (int other = 0; other < count; ++other) {
        const std::string& cell = cell_of(one, gpus_[other].name);
        if (cell.starts_with("NV")) nvlinks_[one][other] = std::stoi(cell.substr(2));
      }
    }
    model_ = find_model(text);
    guessed_ = model_ == nullptr;
    if (guessed_) model_ = &model_of_generation(guess_generation());
  }

  json read(bool peers_refused) const {
    const Groups sockets = find_sockets();
    const Groups switches = find_switches();
    json links = json::array();
    add_nvlinks(links);
    std::map<int, int> cpu_of, switch_of;
    for (int gpu = 0; gpu < size(); ++gpu) cpu_of.try_emplace(sockets.of(gpu), static_cast<int>(cpu_of.size()));
    for (int gpu = 0; gpu < size(); ++gpu) {
      // More than two NUMA nodes are parts of sockets; sockets come in twos.
      const int parts = static_cast<int>(cpu_of.size());
      const int part = cpu_of[sockets.of(gpu)];
      const std::string cpu = "cpu" + std::to_string(parts > 2 ? part * 2 / parts : part);
      const int group = switches.of(gpu);
      int members = 0;
      for (int other = 0; other < size(); ++other) members += switches.of(other) == group;
      if (members == 1) {
        links.push_back({name(gpu), cpu, model_->pcie});
        continue;
      }
      const auto [found, fresh] = switch_of.try_emplace(group, static_cast<int>(switch_of.size()));
      const std::string node = "switch" + std::to_string(found->second);
      if (fresh) links.push_back({node, cpu, model_->pcie});
      links.push_back({name(gpu), node, model_->pcie});
    }
    std::string host = model_->host;
    if (cpu_of.size() > 1) {
      if (host.find("desktop") != std::string::npos) host = host == "amd-desktop" ? "amd-rome" : "amd-genoa";
      links.push_back({"cpu0", "cpu1", socket_link(host)});
    }
    std::string about = std::to_string(size()) + " devices, read from nvidia-smi topo -m";
    about += guessed_ ? std::string("; taken for ") + model_->generation + " with " + model_->pcie +
                            ", since no line names them (nvidia-smi -L)"
                      : std::string("; ") + model_->name;
    return {{"about", about},
            {"gpus", size()},
            {"generation", model_->generation},
            {"memory", model_->memory},
            {"host", host},
            {"reach", model_->peers && !peers_refused ? "everywhere" : "none"},
            {"links", links},
            {"in_switch_reduction", behind_switch() && adds()}};
  }

 private:
  int size() const { return static_cast<int>(gpus_.size()); }
  static std::string name(int gpu) { return "gpu" + std::to_string(gpu); }

  const std::string& cell_of(int gpu, const std::string& column) const {
    const auto at = std::ranges::find(matrix_.columns, column) - matrix_.columns.begin();
    return gpus_[gpu].cells[at];
  }

  static std::string socket_link(const std::string& host) {
    if (host == "intel-e5") return "qpi-bdw";
    if (host == "intel-skylake") return "upi-skl";
    if (host == "intel-spr") return "upi-spr";
    return host == "amd-rome" ? "xgmi-rome" : "xgmi-genoa";
  }

  bool adds() const { return std::string(model_->nvlink) == "nvlink4" || std::string(model_->nvlink) == "nvlink5"; }

  // With equal NVLinks to all, more than a device has: they lead to a switch, and NV# counts those of one device.
  bool behind_switch() const {
    constexpr int most_links_of_a_device = 18;
    const int each = size() > 1 ? nvlinks_[0][1] : 0;
    for (int one = 0; one < size(); ++one) {
      for (int other = 0; other < size(); ++other) {
        if (one != other && nvlinks_[one][other] != each) return false;
      }
    }
    return each > 0 && each * (size() - 1) > most_links_of_a_device;
  }

  void add_nvlinks(json& links) const {
    if (behind_switch()) {
      links.push_back({name(0) + "-" + std::to_string(size() - 1), "nvswitch", model_->nvlink, nvlinks_[0][1]});
      return;
    }
    for (int one = 0; one < size(); ++one) {
      for (int other = one + 1; other < size(); ++other) {
        if (nvlinks_[one][other] > 0) links.push_back({name(one), name(other), model_->nvlink, nvlinks_[one][other]});
      }
    }
  }

  // By the number of NVLinks that a device has: 18 since Hopper, 12 on A100, 6 on V100, 4 on a bridge.
  std::string guess_generation() const {
    int most = 0;
    int all = 0;
    for (int one = 0; one < size(); ++one) {
      most = std::max(most, *std::ranges::max_element(nvlinks_[one]));
      all = std::max(all, std::accumulate(nvlinks_[one].begin(), nvlinks_[one].end(), 0));
    }
    if (most == 0) return "ampere";
    if (most == 18 || all == 18) return "hopper";
    if (most == 4 && all == 4) return "bridged";
    return most <= 3 || (most == 6 && all > 18) ? "volta" : "ampere";
  }

  // Not across the inter-socket link, or the same NUMA node.
  Groups find_sockets() const {
    Groups groups(size());
    for (int one = 0; one < size(); ++one) {
      for (int other = one + 1; other < size(); ++other) {
        const std::string& cell = cell_of(one, gpus_[other].name);
        const bool near = cell == "PIX" || cell == "PXB" || cell == "PHB" || cell == "NODE";
        if (near || affinity(one) == affinity(other)) groups.join(one, other);
      }
    }
    return groups;
  }

  std::string affinity(int gpu) const {
    const Words& words = gpus_[gpu].further;
    if (words.size() > 1 && std::isdigit(static_cast<unsigned char>(words[1][0]))) return "numa " + words[1];
    if (!words.empty() && std::isdigit(static_cast<unsigned char>(words[0][0]))) return "cpus " + words[0];
    return nvlinks_.empty() ? "" : "unknown";
  }

  // Bridges alone between two devices, or between both and one network card.
  Groups find_switches() const {
    Groups groups(size());
    const auto bridged = [](const std::string& cell) { return cell == "PIX" || cell == "PXB"; };
    for (int one = 0; one < size(); ++one) {
      for (int other = one + 1; other < size(); ++other) {
        bool joined = bridged(cell_of(one, gpus_[other].name));
        for (const std::string& column : matrix_.columns) {
          joined = joined || (!is_gpu(column) && bridged(cell_of(one, column)) && bridged(cell_of(other, column)));
        }
        if (joined) groups.join(one, other);
      }
    }
    return groups;
  }

  const Matrix& matrix_;
  std::vector<Row> gpus_;
  std::vector<std::vector<int>> nvlinks_;
  const DeviceModel* model_;
  bool guessed_;
};

}  // namespace

json read_nvidia_smi(const std::string& text) {
  std::istringstream stream(without_colours(text));
  std::vector<Words> lines;
  for (std::string line; std::getline(stream, line);) lines.push_back(words_of(line));
  std::optional<Matrix> distances;
  bool peers_refused = false;
  for (std::size_t at = 0; at < lines.size(); ++at) {
    const Words& words = lines[at];
    if (words.empty() || words[0] != "GPU0") continue;
    // In a header another device's name follows, in a row a cell.
    const std::string& next = words.size() > 1 ? words[1] : "CPU";
    const bool header = next == "CPU" || (std::isdigit(static_cast<unsigned char>(next.back())) && !is_distance(next));
    if (!header) continue;
    Matrix matrix = read_matrix(lines, at);
    const bool permissions = !matrix.rows.empty() && std::ranges::all_of(matrix.rows, [](const Row& row) {
      return !row.cells.empty() && std::ranges::all_of(row.cells, is_permission);
    }) && (matrix.columns.size() > 1);
    if (permissions) {
      check(matrix, is_permission);
      for (const Row& row : matrix.rows) {
        peers_refused = peers_refused || std::ranges::any_of(row.cells, [](const std::string& cell) {
                          return cell != "X" && cell != "OK";
                        });
      }
    } else if (!distances) {
      check(matrix, is_distance);
      distances = std::move(matrix);
    }
  }
  if (!distances) throw UsageError("no matrix of nvidia-smi topo -m is in it: the line of its columns is missing");
  return MatrixReader(*distances, text).read(peers_refused);
}

}  // namespace allreduce
