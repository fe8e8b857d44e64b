// Cleans up after a database that could not be opened.
#pragma once

#include <set>
#include <string>

namespace rocksdb {
class Env;
}

namespace locksley::daemon {

// Removes the files that an attempt to open the database leaves when it fails. RocksDB leaves them
// for its next attempt, and on a full disk each attempt would leave more.
//
// On the stack of the thread that opens: made before the attempt. Reads the folder. Nothing fails:
// a file that cannot be removed stays.
class OpenAttempt {
 public:
  // `env`: null: the system's.
  OpenAttempt(rocksdb::Env* env, std::string folder);
  // After an attempt that failed. Nothing that the database refers to is removed.
  void clean_up() const;

 private:
  struct Listing {
    std::set<std::string> files;
    std::string manifest;  // that CURRENT names; empty: none
  };
  static Listing list(const std::string& folder);
  // Syncs the manifest, and the folder, and with it CURRENT. False if that fails.
  bool is_on_disk(const std::string& manifest) const;

  rocksdb::Env* const env_;
  const std::string folder_;
  const Listing before_;
};

}  // namespace locksley::daemon
