// Which of several servers is written, when an old primary comes back beside the one that was
// promoted.
#include "daemon/store/postgres/primary_finder.h"

#include <gmock/gmock.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <string>
#include <string_view>
#include <vector>

#include "tests/support/postgres_disk.h"
#include "tests/support/postgres_server.h"

namespace locksley::daemon {
namespace {

using ::testing::AllOf;
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

TEST(ServersInUrlTest, AServerWithoutAPortHasThatOfLibpqOnceTheUrlHasAList) {
  const auto two = [](const char* first, const char* second) {
    return ElementsAre(ServerAddress{"a", "", first}, ServerAddress{"b", "", second});
  };
  EXPECT_THAT(servers_in("postgresql://a,b/x"), two("5432", "5432"));
  EXPECT_THAT(servers_in("postgresql://a:1,b/x"), two("1", "5432"));
  EXPECT_THAT(servers_in("postgresql://a,b:1/x"), two("5432", "1"));
  EXPECT_THAT(servers_in("postgresql://a,b/x?port=7"), two("7", "7"));
  EXPECT_THAT(servers_in("postgresql://[::1],[fe80::1]:7/x"),
              ElementsAre(ServerAddress{"::1", "", "5432"}, ServerAddress{"fe80::1", "", "7"}));
  EXPECT_THAT(servers_in("hostaddr=10.0.0.1,10.0.0.2 port=,7"),
              ElementsAre(ServerAddress{"", "10.0.0.1", "5432"}, ServerAddress{"", "10.0.0.2", "7"}));
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

// A folder as the host of a URL.
std::string as_host(std::string_view folder) {
  std::string host;
  for (const char c : folder) host += c == '/' ? "%2F" : std::string(1, c);
  return host;
}

TEST(PrimaryFinderTest, EachServerIsFoundWhicheverOfTheirPortsTheUrlNames) {
  testing::PostgresServer other;
  const std::string first = testing::postgres_server().folder();
  const std::string second = other.folder();
  const std::string a = as_host(first);
  const std::string b = as_host(second);
  for (const std::string& servers : {a + "," + b, a + ":5432," + b, a + "," + b + ":5432"}) {
    PrimaryFinder finder("postgresql://locksley@" + servers + "/postgres");
    EXPECT_EQ(found(finder, Look::kAll), first) << servers;
    EXPECT_EQ(found(finder, Look::kFirst), first) << servers;
  }
  other.kill();
  for (const std::string& servers : {b + "," + a, b + ":5432," + a, b + "," + a + ":5432", b + ":1," + a,
                                     b + "," + a + "/postgres?port=5432"}) {
    PrimaryFinder finder("postgresql://locksley@" + servers + (servers.contains('?') ? "" : "/postgres"));
    EXPECT_EQ(found(finder, Look::kAll), first) << servers;
  }
}

// Whether anything listens there or not: libpq's words name what it has asked.
TEST(PrimaryFinderTest, AddressesAreAskedAtTheirOwnPortOrLibpqs) {
  const auto error = [](const std::string& url) {
    PrimaryFinder finder(url);
    const auto connection = finder.connect("test", Look::kAll);
    return connection ? "connected" : connection.error().error.what;
  };
  EXPECT_THAT(error("postgresql://x@[::1],127.0.0.1:1/x"),
              AllOf(HasSubstr("\"::1\", port 5432 failed"), HasSubstr("\"127.0.0.1\", port 1 failed")));
  EXPECT_THAT(error("user=x hostaddr=127.0.0.1,127.0.0.2 port=1,"),
              AllOf(HasSubstr("\"127.0.0.1\", port 1 failed"), HasSubstr("\"127.0.0.2\", port 5432 failed")));
  EXPECT_THAT(error("user=x host=a,b hostaddr=127.0.0.1,127.0.0.2 port=1"),
              AllOf(HasSubstr("127.0.0.1"), HasSubstr("127.0.0.2"), HasSubstr("port 1 failed")));
}

// Each URL of a database that a text has as an example; those of no use without what stands there
// for a part of it, such as `postgresql://…`, have no database.
std::vector<std::string> urls_in(const std::filesystem::path& file) {
  std::ifstream stream(file);
  const std::string text(std::istreambuf_iterator<char>(stream), {});
  static const std::regex kUrl("postgres(?:ql)?://[-a-z0-9_@:,.]+/[a-z]+(?:[?][-a-z0-9_=&/]+)?");
  std::vector<std::string> urls;
  for (std::sregex_iterator each(text.begin(), text.end(), kUrl), end; each != end; ++each)
    urls.push_back(each->str());
  return urls;
}

// The same with the folder of the server in place of each host, and nothing of other machines'
// files: what is left is what the daemon makes of hosts and ports.
std::string of_server(const std::string& url, const std::string& folder) {
  static const std::regex kParts("[a-z]+://(?:([^@/]*)@)?([^/]*)/.*");
  std::smatch parts;
  if (!std::regex_match(url, parts, kParts)) return url;
  static const std::regex kHost("[^,:]+(:[0-9]+)?");
  const std::string hosts = std::regex_replace(parts[2].str(), kHost, as_host(folder) + "$1");
  return "postgresql://locksley@" + hosts + "/postgres";
}

TEST(PrimaryFinderTest, EachExampleOfAUrlInOurPagesAndFilesIsOneWithWhichTheDaemonConnects) {
  const std::filesystem::path root(LOCKSLEY_SOURCE_TREE);
  const std::string folder = testing::postgres_server().folder();
  int with_several_servers = 0;
  for (const char* part : {"config", "daemon", "deploy"}) {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(root / part)) {
      if (!entry.is_regular_file()) continue;
      for (const std::string& url : urls_in(entry.path())) {
        const std::string ours = of_server(url, folder);
        for (const Look look : {Look::kAll, Look::kFirst}) {
          PrimaryFinder finder(ours);
          EXPECT_EQ(found(finder, look), folder) << entry.path() << ": " << url << " as " << ours;
        }
        with_several_servers += url.contains(',') ? 1 : 0;
      }
    }
  }
  EXPECT_GE(with_several_servers, 3) << "the pages of deploy/standby, and the sample configuration";
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
