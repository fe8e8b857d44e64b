#include "daemon/cli/exec/exec_files.h"

#include <filesystem>
#include <system_error>

#include "daemon/cli/names/whole_file.h"

namespace locksley::cli {

using client::client_error;
using client::Expected;
using Kind = client::ClientError::Kind;

namespace {

// In bytes. File systems take names of at most 255 bytes.
constexpr std::size_t kLongestName = 240;

}  // namespace

std::string ExecFiles::folder_of(std::string_view argument, std::uint64_t number) {
  std::string name;
  for (const char c : argument) {
    switch (c) {
      case '+':
        name += "++";
        break;
      case '/':
        name += "+z";
        break;
      case '\\':
        name += "+b";
        break;
      case '\t':
        name += "+t";
        break;
      default:
        name += c;
    }
  }
  if (name == "." || name == "..") name = name == "." ? "+d" : "+d+d";
  return name.empty() || name.size() > kLongestName ? std::to_string(number) : name;
}

Expected<void> ExecFiles::write(const ExecJob& job, std::string_view output, std::string_view errors) {
  std::string path;
  std::string before_ending;
  if (paths_.is_folder()) {
    path = paths_.folder();
    for (std::size_t i = 0; i < job.arguments.size(); ++i) {
      path.append("/")
          .append(std::to_string(i + 1))
          .append("/")
          .append(folder_of(job.arguments[i], job.number));
    }
    path += "/stdout";
  } else {
    auto named = paths_.path(job.number - 1, job.joined(), job.arguments);
    if (!named) return std::unexpected(std::move(named.error()));
    path = *std::move(named);
  }
  const std::string folder = path.substr(0, path.rfind('/') + 1);
  std::error_code problem;
  if (!folder.empty()) std::filesystem::create_directories(folder, problem);
  if (problem) return client_error(Kind::kLocal, folder + ": cannot be made: " + problem.message());
  const bool is_folder = paths_.is_folder();
  const std::string number = std::to_string(job.number);
  if (auto written = write_whole_file(path, output); !written) return written;
  if (auto written = write_whole_file(is_folder ? folder + "stderr" : path + ".err", errors); !written)
    return written;
  return write_whole_file(is_folder ? folder + "seq" : path + ".seq", number);
}

}  // namespace locksley::cli
