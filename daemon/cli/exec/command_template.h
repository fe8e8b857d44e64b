// The command of `locksley exec` with replacement strings, and the words of each job.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/cli/names/name_parts.h"

namespace locksley::cli {

// The command of `locksley exec`: words in which replacement strings stand for the arguments of a
// job, as in GNU parallel. A word that is only `{}` becomes one word for each argument; within a
// longer word `{}` is the arguments with spaces in between. A command without any replacement
// string gets `{}` as its last word.
//
//   {}   the arguments            {/}   without its folders         {//}  its folders
//   {.}  without extension        {/.}  without either              {#}   the number of the job, from 1
//   {2} {2.} {2/} {2//} {2/.}     the same of the second argument alone; empty if there is none
//
// The content of an argument is never interpreted: no replacement string, quote or shell character
// in it has a meaning. A plain value; nothing blocks or fails.
class CommandTemplate {
 public:
  explicit CommandTemplate(std::span<const std::string> words);

  std::vector<std::string> words(std::span<const std::string> arguments, std::uint64_t number) const;

 private:
  enum class Kind : std::uint8_t { kText, kNumber, kPart };
  struct Piece {
    Kind kind;
    std::string text = {};             // of kText
    NamePart part = NamePart::kWhole;  // of kPart: of the argument
    std::size_t position = 0;          // of the argument, from 1; 0: all
  };
  using Word = std::vector<Piece>;

  static Word parse(std::string_view text);

  std::vector<Word> words_;
};

}  // namespace locksley::cli
