// The path of a job's output, from the text after `--results`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/cli/names/name_parts.h"
#include "proto/clients/cpp/error.h"

namespace locksley::cli {

// Where `--results` writes the output of a job: a folder, in which files are named by the jobs'
// indexes; or a path with replacement strings of GNU parallel, which stand for the name of the
// job's input:
//
//   {}    the name              {/}   without its folders         {//}  its folders
//   {.}   without extension     {/.}  without either              {#}   the number of the job, from 1
//   {2} {2.} {2/} {2//} {2/.}         the same of the second argument alone; empty if there is none
//
// A plain value; nothing blocks.
class PathTemplate {
 public:
  // A text without any of the replacement strings is a folder.
  static PathTemplate parse(std::string_view text);

  bool is_folder() const { return is_folder_; }
  // Whether it has a replacement string other than {#}: then two jobs may have the same path.
  bool needs_names() const { return needs_names_; }
  // The folder in which all paths are, as the text says it; empty: the current folder, or those of
  // the inputs.
  const std::string& folder() const { return folder_; }

  // The path for a job. `name` is used only if needs_names() is true; it is the only argument,
  // unless `arguments` has them. Fails with kLocal if the name has no path here: the path would
  // lead out of the folder that the text names, or names no file.
  client::Expected<std::string> path(std::uint64_t index, std::string_view name,
                                     std::span<const std::string> arguments = {}) const;

 private:
  enum class Kind : std::uint8_t { kText, kNumber, kPart };
  struct Piece {
    Kind kind;
    std::string text = {};             // of kText
    NamePart part = NamePart::kWhole;  // of kPart
    std::size_t position = 0;          // of kPart: of the argument, from 1; 0: the name
  };
  std::vector<Piece> pieces_;
  std::string folder_;
  bool is_folder_ = false;
  bool needs_names_ = false;
};

}  // namespace locksley::cli
