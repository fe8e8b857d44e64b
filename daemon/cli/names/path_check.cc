#include "daemon/cli/names/path_check.h"

#include <algorithm>
#include <filesystem>
#include <functional>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace locksley::cli {

using client::client_error;
using client::Expected;
using Kind = client::ClientError::Kind;

namespace {

// The path from the root, without `.`, `..` and double slashes.
std::string normal_path(std::string_view path, const std::string& current_folder) {
  std::string result = path.starts_with('/') ? std::string() : current_folder;
  while (result.ends_with('/')) result.pop_back();
  for (std::size_t begin = 0; begin < path.size();) {
    const std::size_t end = std::min(path.find('/', begin), path.size());
    const std::string_view part = path.substr(begin, end - begin);
    if (part == "..") {
      result.erase(std::min(result.rfind('/'), result.size()));
    } else if (!part.empty() && part != ".") {
      result.append("/").append(part);
    }
    begin = end + 1;
  }
  return result;
}

struct Mark {
  std::size_t hash;  // of a normal path
  std::uint64_t index;
  auto operator<=>(const Mark&) const = default;
};

// One check: the paths of all outputs, and of all inputs, by their hashes. Paths are made again
// where hashes are equal.
class PathCheck {
 public:
  PathCheck(const PathTemplate& paths, std::uint64_t jobs, const NameOf& name_of, NamesAre names_are)
      : paths_(paths), jobs_(jobs), name_of_(name_of), names_are_(names_are) {
    std::error_code problem;
    current_folder_ = std::filesystem::current_path(problem).string();
  }

  Expected<void> run() {
    if (auto made = make(); !made) return made;
    for (std::size_t i = 1; i < outputs_.size(); ++i) {
      if (outputs_[i].hash != outputs_[i - 1].hash) continue;
      if (auto different = compare(outputs_[i - 1].index, outputs_[i].index); !different) return different;
    }
    for (std::uint64_t index = 0; index < jobs_; ++index) {
      const std::string path = output_path(index);
      if (const auto input = find(inputs_, path, [this](std::uint64_t i) { return input_path(i); })) {
        return client_error(Kind::kLocal, "--results: the output of '" + name(index) +
                                              "' would be written over the input '" + name(*input) + "'");
      }
      if (auto apart = check_folders(index, path); !apart) return apart;
    }
    return {};
  }

 private:
  std::string name(std::uint64_t index) const { return name_of_(index).value_or(std::string()); }
  std::string output_path(std::uint64_t index) const {
    return normal_path(paths_.path(index, name(index)).value_or(std::string()), current_folder_);
  }
  std::string input_path(std::uint64_t index) const { return normal_path(name(index), current_folder_); }

  Expected<void> make() {
    constexpr std::hash<std::string> kHash;
    outputs_.reserve(jobs_);
    for (std::uint64_t index = 0; index < jobs_; ++index) {
      const auto path = paths_.path(index, name(index));
      if (!path) return std::unexpected(path.error());
      outputs_.push_back({kHash(normal_path(*path, current_folder_)), index});
      if (names_are_ == NamesAre::kFiles) inputs_.push_back({kHash(input_path(index)), index});
    }
    std::ranges::sort(outputs_);
    std::ranges::sort(inputs_);
    return {};
  }

  // Compares two neighbours with the same hash. Two equal paths are neighbours, unless a different
  // path has the same hash and an index between theirs.
  Expected<void> compare(std::uint64_t one, std::uint64_t other) const {
    if (output_path(one) != output_path(other)) return {};
    return client_error(Kind::kLocal, "--results: the outputs of '" + name(one) + "' and '" + name(other) +
                                          "' would both be written to " +
                                          paths_.path(one, name(one)).value_or("") +
                                          "; {} and {#} tell them apart");
  }

  // No output is the folder of another one.
  Expected<void> check_folders(std::uint64_t index, const std::string& path) {
    std::string folder = path;
    for (std::size_t slash = folder.rfind('/'); slash != std::string::npos && slash > 0;
         slash = folder.rfind('/')) {
      folder.erase(slash);
      if (folder == last_folder_) return {};  // and those above it
      if (const auto other = find(outputs_, folder, [this](std::uint64_t i) { return output_path(i); })) {
        return client_error(Kind::kLocal, "--results: " + folder + " would be the output of '" +
                                              name(*other) + "', and the folder of that of '" + name(index) +
                                              "'");
      }
    }
    last_folder_ = path.substr(0, path.rfind('/'));
    return {};
  }

  template <class PathOf>
  static std::optional<std::uint64_t> find(const std::vector<Mark>& marks, const std::string& path,
                                           PathOf path_of) {
    const std::size_t hash = std::hash<std::string>()(path);
    for (auto mark = std::ranges::lower_bound(marks, Mark{hash, 0});
         mark != marks.end() && mark->hash == hash; ++mark) {
      if (path_of(mark->index) == path) return mark->index;
    }
    return std::nullopt;
  }

  const PathTemplate& paths_;
  const std::uint64_t jobs_;
  const NameOf& name_of_;
  const NamesAre names_are_;
  std::string current_folder_;
  std::vector<Mark> outputs_;
  std::vector<Mark> inputs_;
  std::string last_folder_;  // it and those above it are no outputs
};

}  // namespace

Expected<void> check_paths(const PathTemplate& paths, std::uint64_t jobs, const NameOf& name_of,
                           NamesAre names_are) {
  return PathCheck(paths, jobs, name_of, names_are).run();
}

}  // namespace locksley::cli
