#include "daemon/store/embedded/clean_end.h"

#include <fmt/format.h>
#include <xxhash.h>

#include <memory>
#include <string_view>
#include <utility>

#include "daemon/store/embedded/store_access.h"

namespace locksley::daemon {
namespace {

constexpr std::string_view kHead = "locksley clean end 1\n";

std::string checksum(std::string_view bytes) {
  return fmt::format("{:016x}", XXH3_64bits(bytes.data(), bytes.size()));
}

using Mismatch = CleanEndNote::Mismatch;

// `damage`: the mismatch if the file is missing, or is there and is wrong.
Mismatch unread(const rocksdb::Status& status, Mismatch damage) {
  if (is_of_the_system(status.ToString())) return {Mismatch::Of::kSystem, status.ToString()};
  return damage;
}

}  // namespace

CleanEndNote::CleanEndNote(rocksdb::Env* env, std::string folder)
    : env_(env != nullptr ? env : rocksdb::Env::Default()), folder_(std::move(folder)) {}

std::expected<std::string, Mismatch> CleanEndNote::describe() const {
  std::string name;
  if (const auto read = rocksdb::ReadFileToString(env_, path_of("CURRENT"), &name); !read.ok()) {
    return std::unexpected(unread(read, {Mismatch::Of::kManifest, "the file CURRENT is missing"}));
  }
  if (name.ends_with('\n')) name.pop_back();
  std::string bytes;
  if (const auto read = rocksdb::ReadFileToString(env_, path_of(name), &bytes); !read.ok()) {
    return std::unexpected(
        unread(read, {Mismatch::Of::kManifest, "the manifest that the file CURRENT names is missing"}));
  }
  return fmt::format("{} {} {}\n", name, bytes.size(), checksum(bytes));
}

std::expected<void, Mismatch> CleanEndNote::check() const {
  if (env_->FileExists(path_of(kFile)).IsNotFound()) return {};
  std::string note;
  const rocksdb::Status read = rocksdb::ReadFileToString(env_, path_of(kFile), &note);
  const std::size_t body =
      note.size() < 17 ? 0 : note.size() - 17;  // without its checksum and the end of the line
  if (!read.ok() || !note.starts_with(kHead) || note.substr(body) != checksum({note.data(), body}) + "\n") {
    return std::unexpected(unread(read, {Mismatch::Of::kNote, fmt::format("the file {} is damaged", kFile)}));
  }
  const auto found = describe();
  if (!found) return std::unexpected(found.error());
  const std::string noted = note.substr(kHead.size(), body - kHead.size());
  // RocksDB starts a manifest of another name whenever it opens a database: a program that does not
  // write notes has opened this one since.
  if (noted.substr(0, noted.find(' ')) != found->substr(0, found->find(' '))) return {};
  if (noted != *found) {
    return std::unexpected(
        Mismatch{Mismatch::Of::kManifest, "its manifest is not the one with which it was closed"});
  }
  return {};
}

std::expected<void, std::string> CleanEndNote::remove() const {
  if (env_->FileExists(path_of(kFile)).IsNotFound()) return {};
  auto status = env_->DeleteFile(path_of(kFile));
  // Otherwise the note might be there again after a power failure.
  if (status.ok()) status = sync_folder();
  if (!status.ok()) return std::unexpected(status.ToString());
  return {};
}

void CleanEndNote::leave() const {
  const auto found = describe();
  if (!found) return;
  std::string note = std::string(kHead) + *found;
  note += checksum(note) + "\n";
  const std::string unfinished = path_of(std::string(kFile) + ".new");
  if (!rocksdb::WriteStringToFile(env_, note, unfinished, true).ok()) return;
  if (env_->RenameFile(unfinished, path_of(kFile)).ok()) static_cast<void>(sync_folder());
}

rocksdb::Status CleanEndNote::sync_folder() const {
  std::unique_ptr<rocksdb::Directory> folder;
  const auto opened = env_->NewDirectory(folder_, &folder);
  return opened.ok() ? folder->Fsync() : opened;
}

}  // namespace locksley::daemon
