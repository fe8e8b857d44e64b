#include "daemon/cli/job/failed_payloads.h"

#include <algorithm>
#include <cstdio>

#include "daemon/cli/text/json.h"
#include "daemon/cli/text/table.h"

namespace locksley::cli {

using client::Expected;

namespace {

// JOB commands in one pipeline, and bytes of their payloads, estimated from the largest payload so
// far. Guess: enough that round trips do not matter, and little compared with the daemon's limit of
// unread replies.
constexpr std::size_t kMostAtOnce = 100;
constexpr std::size_t kBytesAtOnce = std::size_t{1} << 20;

}  // namespace

Expected<void> FailedPayloads::show() {
  std::vector<std::uint64_t> indexes;
  for (std::size_t next = 0; next < rows_.size() && output_.error() == 0;) {
    // The first job alone: its payload tells how large the others may be.
    const std::size_t most =
        largest_ == 0 ? 1 : std::clamp(kBytesAtOnce / largest_, std::size_t{1}, kMostAtOnce);
    const std::size_t end = std::min(rows_.size(), next + most);
    indexes.clear();
    for (std::size_t i = next; i < end; ++i) indexes.push_back(rows_[i].index);
    const auto replies = client_.jobs(id_, indexes);
    if (!replies) return std::unexpected(replies.error());
    for (const proto::Reply& reply : *replies) {
      if (reply.is_error()) return std::unexpected(client::refused(reply.text));
      const auto job = client::to_job(reply);
      if (!job) return std::unexpected(job.error());
      largest_ = std::max({largest_, std::size_t{1}, job->payload ? job->payload->size() : 0});
      show_one(rows_[next++], job->payload);
    }
  }
  rows_.clear();
  return {};
}

void FailedPayloads::show_one(const Row& row, const std::optional<std::string>& payload) {
  const std::optional<std::string> name = options_.name_of ? options_.name_of(row.index) : std::nullopt;
  if (!payload) {
    ++missing_;
    output_.flush();
    const std::string job = "job " + std::to_string(row.index);
    std::fprintf(stderr, "%s: its payload is no longer kept\n",
                 name ? (printable(*name) + " (" + job + ")").c_str() : job.c_str());
  }
  if (options_.json) {
    output_.append(json_text({row.index, row.status, row.output}, {.input = name, .payload = payload}) +
                   "\n");
  } else if (payload) {
    split_ += options_.separator == '\n' && payload->contains('\n') ? 1 : 0;
    output_.append(*payload);
    output_.append({&options_.separator, 1});
  }
}

}  // namespace locksley::cli
