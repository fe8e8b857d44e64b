// Which of several servers is written, when an old primary comes back beside the one that was
// promoted.
#include "daemon/store/postgres/primary_finder.h"

#include <gmock/gmock.h>

#include <chrono>
#include <fstream>
#include <string>

#include "tests/support/postgres_disk.h"
#include "tests/support/postgres_server.h"

namespace locksley::daemon {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Look = PrimaryFinder::Look;

TEST(ServersInUrlTest, EachHasItsNameAndPort) {
  EXPECT_THAT(servers_in("postgresql://a:1,b:2/x"),
              ElementsAre(ServerAddress{"a", "", "1"}, ServerAddress{"b", "", "2"}));
  EXPECT_THAT(servers_in("host=a,b port=7"),
              ElementsAre(ServerAddress{"a", "", "7"}, ServerAddress{"b", "", "7"}));
  EXPECT_THAT(servers_in("host=a,b hostaddr=10.0.0.1,10.0.0.2"),
              ElementsAre(ServerAddress{"a", "10.0.0.1", ""}, ServerAddress{"b", "10.0.0.2", ""}));
  EXPECT_THAT(servers_in("postgresql:///x?host=/one,/two"),
              ElementsAre(ServerAddress{"/one", "", ""}, ServerAddress{"/two", "", ""}));
}

TEST(ServersInUrlTest, ThereAreNoneThatOnlyLibpqWouldFind) {
  EXPECT_THAT(servers_in("service=somewhere"), IsEmpty());
  EXPECT_THAT(servers_in("host=a, port=1,2"), IsEmpty());
  EXPECT_THAT(servers_in("host=a,b,c port=1,2"), IsEmpty());
  EXPECT_THAT(servers_in("no URL"), IsEmpty());
}

// The folder of the server that it finds, or the error.
std::string found(PrimaryFinder& finder, Look look) {
  auto connection = finder.connect("test", look);
  if (!connection) return connection.error().error.what;
  const auto folder = (*connection)->run("show unix_socket_directories", now() + std::chrono::seconds(30));
  return folder ? std::string(PQgetvalue(folder->get(), 0, 0)) : folder.error().error.what;
}

TEST(PrimaryFinderTest, AnOldPrimaryIsNotUsedOnceAServerWasSeenThatWasPromotedLater) {
  const std::string old_folder = testing::postgres_server().folder();
  testing::PostgresServer promoted;
  const std::string new_folder = promoted.folder();
  promoted.kill();
  {
    const std::ofstream signal(promoted.folder() / "data/standby.signal");
  }
  promoted.start();
  testing::TestConnection(promoted.url()).run("select pg_promote()");

  PrimaryFinder finder("postgresql://locksley@/postgres?host=" + old_folder + "," + new_folder);
  EXPECT_EQ(found(finder, Look::kFirst), old_folder) << "it is the first, and could be the only one";
  const auto connection = finder.connect("test", Look::kFirst);
  ASSERT_TRUE(connection.has_value());
  EXPECT_FALSE(finder.is_outdated(**connection));
  EXPECT_EQ(found(finder, Look::kAll), new_folder);
  EXPECT_TRUE(finder.is_outdated(**connection));
  EXPECT_EQ(found(finder, Look::kFirst), new_folder);

  promoted.kill();
  for (const Look look : {Look::kFirst, Look::kAll})
    EXPECT_THAT(found(finder, look), HasSubstr("is an old primary"));
  promoted.start();
  EXPECT_EQ(found(finder, Look::kFirst), new_folder);
}

}  // namespace
}  // namespace locksley::daemon
