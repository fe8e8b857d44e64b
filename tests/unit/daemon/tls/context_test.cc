// Certificates, keys and authorities from files: those that are used, and the errors for those that
// cannot be.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>

#include <chrono>
#include <filesystem>
#include <memory>
#include <sstream>
#include <string>

#include "daemon/tls/context.h"
#include "tests/support/test_certificate.h"

namespace locksley::daemon {
namespace {

using locksley::testing::TestCertificate;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

config::Tls files_of(const TestCertificate& pair) {
  return {.certificate = pair.certificate_file(), .key = pair.key_file(), .client_ca = "", .clients = {}};
}

std::vector<std::string> problems_of(const config::Tls& files) {
  const auto loaded = TlsContext::load(files, TlsUse::kWire, "listen.tls");
  return loaded ? std::vector<std::string>{} : loaded.error();
}

TEST(TlsContextTest, KnowsWhenItsCertificateExpires) {
  const TestCertificate pair({.until_seconds = 1000});
  const auto context = TlsContext::load(files_of(pair), TlsUse::kWire, "listen.tls");
  ASSERT_TRUE(context);
  EXPECT_THAT((*context)->warnings(), IsEmpty());
  const auto left = (*context)->expires_at() - std::chrono::system_clock::now();
  EXPECT_LE(left, std::chrono::seconds(1001));
  EXPECT_GT(left, std::chrono::seconds(500));
}

TEST(TlsContextTest, WarnsOfWhatClientsWillRefuse) {
  const auto warnings_of = [](const TestCertificate& pair) {
    const auto context = TlsContext::load(files_of(pair), TlsUse::kWire, "http.tls");
    return context ? (*context)->warnings() : std::vector<std::string>{"refused"};
  };
  EXPECT_THAT(
      warnings_of(TestCertificate({.from_seconds = -100, .until_seconds = -1})),
      ElementsAre(AllOf(HasSubstr("http.tls.certificate: "), HasSubstr("expired on "), HasSubstr(" UTC"))));
  EXPECT_THAT(warnings_of(TestCertificate({.from_seconds = 100})),
              ElementsAre(HasSubstr("is not valid before ")));
  const TestCertificate open({});
  std::filesystem::permissions(open.key_file(), std::filesystem::perms::others_read,
                               std::filesystem::perm_options::add);
  EXPECT_THAT(warnings_of(open), ElementsAre(HasSubstr("every user of this machine can read the key")));
}

// Each port by itself, so that one that is left out is found.
TEST(TlsContextTest, WarningsOfEachPortAreLogged) {
  const TestCertificate expired({.from_seconds = -100, .until_seconds = -1});
  const auto context = TlsContext::load(files_of(expired), TlsUse::kWire, "tls");
  ASSERT_TRUE(context);
  const auto logged = [](const TlsContexts& contexts) {
    std::ostringstream text;
    spdlog::logger log("test", std::make_shared<spdlog::sinks::ostream_sink_st>(text));
    log_warnings(contexts, log);
    return text.str();
  };
  EXPECT_THAT(logged({}), IsEmpty());
  EXPECT_THAT(logged({.listen = *context, .http = nullptr, .workers = nullptr}), HasSubstr("expired on "));
  EXPECT_THAT(logged({.listen = nullptr, .http = *context, .workers = nullptr}), HasSubstr("expired on "));
  EXPECT_THAT(logged({.listen = nullptr, .http = nullptr, .workers = *context}), HasSubstr("expired on "));
}

TEST(TlsContextTest, NamesKeyFileAndReason) {
  const TestCertificate pair({});
  const TestCertificate other({.name = "other"});
  const auto with = [&](auto change) {
    config::Tls files = files_of(pair);
    change(files);
    return problems_of(files);
  };
  EXPECT_THAT(with([](auto& files) { files.certificate = "/no/such"; }),
              ElementsAre("listen.tls.certificate: /no/such: No such file or directory"));
  EXPECT_THAT(with([](auto& files) { files.certificate = files.key = "/no/such"; }),
              ElementsAre(HasSubstr("listen.tls.certificate: "), HasSubstr("listen.tls.key: ")));
  EXPECT_THAT(with([](auto& files) { files.key = "/"; }), ElementsAre("listen.tls.key: /: is not a file"));
  EXPECT_THAT(with([](auto& files) { files.key = files.certificate; }),
              ElementsAre(HasSubstr("holds no private key in PEM form")));
  EXPECT_THAT(with([](auto& files) { files.certificate = files.key; }),
              ElementsAre(HasSubstr("holds no certificate in PEM form")));
  EXPECT_THAT(with([&](auto& files) { files.key = pair.encrypted_key_file(); }),
              ElementsAre(HasSubstr("the key is encrypted")));
  EXPECT_THAT(
      with([&](auto& files) { files.key = other.key_file(); }),
      ElementsAre(AllOf(HasSubstr(other.key_file()), HasSubstr("is not the key of the certificate in"))));
  EXPECT_THAT(with([&](auto& files) {
                files.certificate =
                    pair.file_with("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n");
              }),
              ElementsAre(HasSubstr("certificate 1 is damaged: ")));
  EXPECT_THAT(with([&](auto& files) { files.client_ca = pair.file_with("x"); }),
              ElementsAre(AllOf(HasSubstr("listen.tls.client_ca: "), HasSubstr("no certificate"))));
}

TEST(TlsContextTest, RefusesAKeyThatIsTooShort) {
  const TestCertificate pair({.rsa_bits = 1024});
  EXPECT_THAT(problems_of(files_of(pair)), ElementsAre(HasSubstr("key too small")));
}

TEST(TlsContextTest, OfTwoSidesOneThatIsBadSpoilsBoth) {
  const TestCertificate pair({});
  config::Config config;
  config.listen.tls = files_of(pair);
  EXPECT_TRUE(load_tls(config).value().listen);
  EXPECT_FALSE(load_tls(config).value().http);
  config.http.tls = {.certificate = "/a", .key = "/b", .client_ca = "", .clients = {}};
  const auto both = load_tls(config);
  ASSERT_FALSE(both);
  EXPECT_THAT(both.error(), ElementsAre(HasSubstr("http.tls.certificate"), HasSubstr("http.tls.key")));
}

TEST(TlsContextTest, TheCommonNameIsTheLastAndNeverCutByANul) {
  const TestCertificate pair({.name = "Ålice"});
  EXPECT_EQ(common_name(*read_certificates(pair.certificate_file()).value().front()), "Ålice");
  const TestCertificate trick({.name = std::string("root\0.example", 13)});
  EXPECT_EQ(common_name(*read_certificates(trick.certificate_file()).value().front()), "");
}

}  // namespace
}  // namespace locksley::daemon
