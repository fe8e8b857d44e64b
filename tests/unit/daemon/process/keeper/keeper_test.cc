// The keeper that stays root when the daemon does not: the users for whom it runs programs.
#include "daemon/process/keeper/keeper.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <string>
#include <vector>

#include "daemon/process/keeper/spawn_request.h"

namespace locksley::daemon {
namespace {

std::vector<KeeperUser> users_of(std::string_view word) {
  return decode_keeper_users(word).value_or(std::vector<KeeperUser>{{1234, 5678}});
}

TEST(KeeperUsersTest, ComeBackAsTheyWere) {
  const std::vector<KeeperUser> users{{0, 4'294'967'295}, {1, 2}};
  EXPECT_EQ(encode(users), "0:4294967295,1:2");
  EXPECT_EQ(users_of(encode(users)), users);
  EXPECT_EQ(users_of(encode(std::vector<KeeperUser>{})), std::vector<KeeperUser>{});
}

TEST(KeeperUsersTest, WhatIsNoListIsRefused) {
  for (const char* word :
       {"1", "1:", ":1", "1:2,", ",1:2", "1:2 ", "-1:2", "1:2;3:4", "4294967296:1", "a:b"}) {
    EXPECT_FALSE(decode_keeper_users(word)) << word;
  }
}

// The report of a keeper for `users` about one program, requested like this. `most_memory_kib`: of
// the keeper, at any time.
KeeperReport report_of(const std::string& users, const SpawnRequest& request,
                       long* most_memory_kib = nullptr) {
  std::array<int, 2> ends{};
  EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends.data()), 0);
  const pid_t keeper = ::fork();
  if (keeper == 0) {
    ::close(ends[0]);
    ::_exit(keep_processes(ends[1], users));
  }
  ::close(ends[1]);
  const std::string bytes = encode(request);
  const KeeperOrder order{KeeperOrder::Kind::kSpawn, static_cast<std::uint32_t>(bytes.size()), 1, 0, 0};
  EXPECT_EQ(::write(ends[0], &order, sizeof order), static_cast<ssize_t>(sizeof order));
  EXPECT_EQ(::write(ends[0], bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
  KeeperReport report{};
  EXPECT_EQ(::recv(ends[0], &report, sizeof report, MSG_WAITALL), static_cast<ssize_t>(sizeof report));
  ::close(ends[0]);
  int status = 0;
  rusage used{};
  EXPECT_EQ(::wait4(keeper, &status, 0, &used), keeper);
  if (most_memory_kib != nullptr) *most_memory_kib = used.ru_maxrss;
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  return report;
}

SpawnRequest request_as(std::uint32_t user, std::uint32_t group) {
  SpawnRequest request;
  request.arguments = {"/bin/true"};
  request.changes_user = true;
  request.user = user;
  request.group = group;
  return request;
}

TEST(KeeperTest, RunsProgramsAsTheListedUsersAlone) {
  const std::uint32_t user = ::geteuid();
  const std::uint32_t group = ::getegid();
  const std::string listed = encode(std::vector<KeeperUser>{{1, 1}, {user, group}});
  EXPECT_EQ(report_of(listed, request_as(user, group)).kind, KeeperReport::Kind::kStarted);
  SpawnRequest as_it_is = request_as(user, group);
  as_it_is.changes_user = false;
  for (const SpawnRequest& refused : {request_as(user + 7, group), request_as(user, group + 7), as_it_is}) {
    const KeeperReport report = report_of(listed, refused);
    EXPECT_EQ(report.kind, KeeperReport::Kind::kFailed);
    EXPECT_EQ(report.step, KeeperReport::Step::kUser);
    EXPECT_EQ(report.error, EPERM);
  }
}

TEST(KeeperTest, WithoutAListRunsThemAsAsked) {
  SpawnRequest as_it_is = request_as(0, 0);
  as_it_is.changes_user = false;
  EXPECT_EQ(report_of("", as_it_is).kind, KeeperReport::Kind::kStarted);
}

TEST(KeeperTest, NeedsNoMemoryForEachFolderOfALongPath) {
  SpawnRequest request = request_as(0, 0);
  request.changes_user = false;
  request.arguments = {std::string(std::size_t{1} << 20, 'x')};
  long before_kib = 0;
  report_of("", request, &before_kib);
  for (int i = 0; i < 300; ++i) request.path += "/nowhere:";
  long most_kib = 0;
  const KeeperReport report = report_of("", request, &most_kib);
  EXPECT_EQ(report.step, KeeperReport::Step::kProgram);
  EXPECT_EQ(report.error, ENAMETOOLONG);
  EXPECT_LT(most_kib, before_kib + 100 * 1024) << "300 folders and a name of 1 MiB";
}

}  // namespace
}  // namespace locksley::daemon
