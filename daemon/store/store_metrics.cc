#include "daemon/store/store_metrics.h"

#include <utility>

#include "daemon/store/store.h"

namespace locksley::daemon {

void read_store_metrics(const Store& store, Families& families) {
  const Store::Stats stats = store.stats();
  Family commits =
      Family::histogram("locksley_store_commit_seconds", "Time to write and sync one group of writes.");
  commits.add({}, stats.commit_time.snapshot());
  std::move(commits).move_to(families);
  Family bytes =
      Family::gauge("locksley_store_bytes", "Bytes of the store's files, measured at most a second ago.");
  bytes.add({}, stats.disk_bytes);
  std::move(bytes).move_to(families);
  Family errors =
      Family::counter("locksley_store_errors_total", "Writes and reopenings of the store that failed.");
  errors.add({}, stats.errors);
  std::move(errors).move_to(families);
  if (stats.backups) {
    Family backups = Family::counter("locksley_store_backups_total",
                                     "Backups that were begun, by outcome; refused ones are not counted.");
    backups.add({{"outcome", "made"}}, stats.backups->made);
    backups.add({{"outcome", "failed"}}, stats.backups->failed);
    std::move(backups).move_to(families);
    Family last =
        Family::gauge("locksley_store_last_backup_timestamp_seconds",
                      "When the last backup that was made was begun, since 1970; 0: none by this process.");
    last.add({}, static_cast<double>(stats.backups->last_made));
    std::move(last).move_to(families);
  }
  if (!stats.disk) return;
  Family size =
      Family::gauge("locksley_store_disk_size_bytes", "Bytes of the file system that contains the store.");
  size.add({}, stats.disk->size_bytes);
  std::move(size).move_to(families);
  Family free = Family::gauge("locksley_store_disk_free_bytes",
                              "Bytes of that file system that are free for the daemon.");
  free.add({}, stats.disk->free_bytes);
  std::move(free).move_to(families);
}

}  // namespace locksley::daemon
