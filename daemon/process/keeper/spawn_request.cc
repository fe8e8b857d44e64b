#include "daemon/process/keeper/spawn_request.h"

#include <cstring>

namespace locksley::daemon {
namespace {

class Writer {
 public:
  void number(std::uint64_t value) { bytes_.append(reinterpret_cast<const char*>(&value), sizeof value); }
  void text(std::string_view value) {
    number(value.size());
    bytes_ += value;
  }
  void texts(const std::vector<std::string>& values) {
    number(values.size());
    for (const std::string& value : values) text(value);
  }
  std::string take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

// Reads numbers and texts. After the first incomplete value, all further ones are 0 or empty.
class Reader {
 public:
  explicit Reader(std::string_view bytes) : bytes_(bytes) {}

  std::uint64_t number() {
    std::uint64_t value = 0;
    const std::string_view from = take(sizeof value);
    if (from.size() == sizeof value) std::memcpy(&value, from.data(), sizeof value);
    return value;
  }
  std::string text() { return std::string(take(number())); }
  std::vector<std::string> texts() {
    std::vector<std::string> values;
    for (std::uint64_t i = 0, count = number(); i < count && is_whole_; ++i) values.push_back(text());
    return values;
  }
  bool is_whole() const { return is_whole_ && bytes_.empty(); }

 private:
  std::string_view take(std::uint64_t size) {
    if (size > bytes_.size()) {
      is_whole_ = false;
      bytes_ = {};
    }
    const std::string_view taken = bytes_.substr(0, is_whole_ ? size : 0);
    bytes_.remove_prefix(taken.size());
    return taken;
  }

  std::string_view bytes_;
  bool is_whole_ = true;
};

}  // namespace

std::string encode(const SpawnRequest& request) {
  Writer writer;
  writer.texts(request.arguments);
  writer.texts(request.environment);
  writer.text(request.path);
  writer.text(request.directory);
  writer.texts(request.confinement.read);
  writer.texts(request.confinement.write);
  for (const std::uint64_t number :
       {request.cpu_seconds, request.memory_bytes, request.file_bytes, request.files, request.processes,
        std::uint64_t{request.changes_user}, std::uint64_t{request.user}, std::uint64_t{request.group},
        std::uint64_t{request.confinement.confines_files},
        std::uint64_t{request.confinement.denies_network}}) {
    writer.number(number);
  }
  return writer.take();
}

std::expected<SpawnRequest, std::string> decode_spawn_request(std::string_view bytes) {
  Reader reader(bytes);
  SpawnRequest request;
  request.arguments = reader.texts();
  request.environment = reader.texts();
  request.path = reader.text();
  request.directory = reader.text();
  request.confinement.read = reader.texts();
  request.confinement.write = reader.texts();
  request.cpu_seconds = reader.number();
  request.memory_bytes = reader.number();
  request.file_bytes = reader.number();
  request.files = reader.number();
  request.processes = reader.number();
  request.changes_user = reader.number() != 0;
  request.user = static_cast<std::uint32_t>(reader.number());
  request.group = static_cast<std::uint32_t>(reader.number());
  request.confinement.confines_files = reader.number() != 0;
  request.confinement.denies_network = reader.number() != 0;
  if (!reader.is_whole() || request.arguments.empty())
    return std::unexpected("not a request to start a program");
  return request;
}

}  // namespace locksley::daemon
