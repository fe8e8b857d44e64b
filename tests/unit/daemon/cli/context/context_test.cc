// Which daemons the client program asks, and what its exit codes say.

#include "daemon/cli/context/context.h"

#include <gmock/gmock.h>

#include <fstream>

#include "daemon/base/exit_codes.h"
#include "tests/support/own_path.h"

namespace locksley::cli {
namespace {

using ::testing::HasSubstr;

const char* no_environment(const char*) { return nullptr; }

const char* full_environment(const char* name) {
  return std::string_view(name) == "LOCKSLEY_URL" ? "redis://bob@example.org:5" : "from environment";
}

TEST(CliAddressTest, OptionsWinOverTheEnvironmentWhichWinsOverTheDefault) {
  EXPECT_EQ(choose_addresses({}, no_environment).value().front().text(), "127.0.0.1:7770");
  EXPECT_EQ(choose_addresses({}, full_environment).value().front().text(), "example.org:5");
  EXPECT_EQ(choose_addresses({}, full_environment).value().front().user, "bob");
  EXPECT_EQ(choose_addresses({}, full_environment).value().front().password, "from environment");
  EXPECT_EQ(choose_addresses({.server = "h:1"}, full_environment).value().front().text(), "h:1");
  EXPECT_EQ(choose_addresses({.url = "redis://h:2"}, full_environment).value().front().text(), "h:2");
}

TEST(CliAddressTest, AListHasOneUserAndOnePassword) {
  const auto list =
      choose_addresses({.url = "redis://bob@a:1,b,[::1]:3"}, [](const char* name) -> const char* {
        return std::string_view(name) == "LOCKSLEY_PASSWORD" ? "pw" : nullptr;
      });
  ASSERT_TRUE(list) << list.error().message;
  EXPECT_EQ(client::text_of(*list), "a:1,b:7770,[::1]:3");
  for (const client::Address& address : *list) {
    EXPECT_EQ(address.user, "bob");
    EXPECT_EQ(address.password, "pw");
  }
  EXPECT_EQ(client::text_of(choose_addresses({.server = "a:1,b:2"}, no_environment).value()), "a:1,b:2");
}

TEST(CliAddressTest, APasswordInAnArgumentIsRefused) {
  const auto address = choose_addresses({.url = "redis://u:secret@h"}, no_environment);
  ASSERT_FALSE(address);
  EXPECT_THAT(address.error().message, HasSubstr("LOCKSLEY_PASSWORD"));
}

TEST(CliAddressTest, ThePasswordFilesFirstLineIsThePassword) {
  const testing::OwnPath file("password");
  const std::string& name = file.text();
  std::ofstream(name) << "pass word\nnext\n";
  EXPECT_EQ(choose_addresses({.password_file = name}, full_environment).value().front().password,
            "pass word");
  EXPECT_FALSE(choose_addresses({.password_file = name + ".none"}, full_environment));
}

TEST(CliExitTest, CodesSayWhatACallerCanDo) {
  using Kind = client::ClientError::Kind;
  EXPECT_EQ(exit_code_of({Kind::kUnavailable, "", ""}), daemon::kExitUnavailable);
  EXPECT_EQ(exit_code_of({Kind::kRefused, "QUEUEFULL", ""}), daemon::kExitTemporary);
  EXPECT_EQ(exit_code_of({Kind::kRefused, "WRONGPASS", ""}), daemon::kExitNoPermission);
  EXPECT_EQ(exit_code_of({Kind::kRefused, "NOBATCH", ""}), daemon::kExitDataError);
  EXPECT_EQ(exit_code_of({Kind::kRefused, "DRAINING", ""}), daemon::kExitUnavailable);
}

TEST(CliExitTest, ABatchStaysOpenIfItsCommandMaySucceedLater) {
  using Kind = client::ClientError::Kind;
  for (const Kind kind : {Kind::kUnavailable, Kind::kTimeout}) EXPECT_TRUE(is_temporary({kind, "", ""}));
  for (const char* const code : {"DRAINING", "STORE", "QUEUEFULL"})
    EXPECT_TRUE(is_temporary({Kind::kRefused, code, ""})) << code;
  for (const Kind kind : {Kind::kInput, Kind::kInterrupted, Kind::kProtocol})
    EXPECT_FALSE(is_temporary({kind, "", ""}));
}

}  // namespace
}  // namespace locksley::cli
