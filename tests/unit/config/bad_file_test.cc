#include "config/load.h"
#include "tests/unit/config/shown.h"

#include <gtest/gtest.h>

#include <ostream>
#include <string>

namespace locksley::config {
namespace {

// A file, and all that must be said about it, line by line.
struct BadFile {
  const char* name;
  std::string text;
  const char* problems;
};

std::ostream& operator<<(std::ostream& out, const BadFile& file) { return out << file.name; }

class BadFileTest : public testing::TestWithParam<BadFile> {};

TEST_P(BadFileTest, GivesExactlyTheseProblems) {
  const auto config = load_text(GetParam().text, "f");
  ASSERT_FALSE(config.has_value()) << GetParam().text;
  EXPECT_EQ(shown(config.error()), GetParam().problems);
}

std::string name_of(const testing::TestParamInfo<BadFile>& info) { return info.param.name; }

INSTANTIATE_TEST_SUITE_P(
    Keys, BadFileTest,
    testing::Values(
        BadFile{"UnknownKeyNearAKnownOne", "scheduling:\n  quantom: 1ms\n",
                "f:2:3: scheduling.quantom: unknown key; did you mean \"quantum\"?\n"},
        BadFile{"UnknownKeyNearNothing", "http:\n  banana: 1\n",
                "f:2:3: http.banana: unknown key, expected address, port, login, token_file, hosts or tls\n"},
        BadFile{"UnknownSection", "limit: {max_clients: 1}\n",
                "f:1:1: limit: unknown key; did you mean \"limits\"?\n"},
        BadFile{"KeyAtTheWrongDepth", "quantum: 1ms\n",
                "f:1:1: quantum: unknown key; did you mean \"scheduling.quantum\"?\n"},
        BadFile{"KeyTwice", "pool:\n  workers: 1\n  workers: 2\n",
                "f:3:3: pool.workers: expected each key once, found it again; it is also on line 2\n"},
        BadFile{"SectionTwice", "pool: {workers: 1}\nhttp: {port: 1}\npool: {workers: 1}\n",
                "f:3:1: pool: expected each key once, found it again; it is also on line 1\n"},
        BadFile{"UnknownKeyTwice", "http: {a: 1, a: 2}\n",
                "f:1:8: http.a: unknown key, expected address, port, login, token_file, hosts or tls\n"
                "f:1:14: http.a: expected each key once, found it again; it is also on line 1\n"
                "f:1:14: http.a: unknown key, expected address, port, login, token_file, hosts or tls\n"},
        BadFile{"KeyThatIsAList", "? [a, b]\n: c\n", "f:1:3: expected the name of a key, found a list\n"},
        BadFile{"SectionThatIsAText", "pool: 4\n", "f:1:7: pool: expected a mapping of keys, found \"4\"\n"},
        BadFile{"SectionThatIsAList", "pool: [4]\n",
                "f:1:7: pool: expected a mapping of keys, found a list\n"},
        BadFile{"RootThatIsAList", "- 1\n",
                "f:1:1: expected a mapping of sections such as listen: {port: 7770}, found a list\n"},
        BadFile{"RootThatIsAText", "hello\n",
                "f:1:1: expected a mapping of sections such as listen: {port: 7770}, found \"hello\"\n"}),
    name_of);

INSTANTIATE_TEST_SUITE_P(
    Values, BadFileTest,
    testing::Values(
        BadFile{"DurationThatIsAWord", "scheduling:\n  quantum: ten\n",
                "f:2:12: scheduling.quantum: expected a duration such as 10ms (us, ms, s, m, h, d), found "
                "\"ten\"\n"},
        BadFile{"DurationOutOfBounds", "scheduling: {quantum: 5us}\n",
                "f:1:23: scheduling.quantum: expected a duration from 10us to 1s, found \"5us\"\n"},
        BadFile{
            "DurationBeyondItsType", "limits: {idle_timeout: 99999999999999h}\n",
            "f:1:24: limits.idle_timeout: expected a duration from 0s to 365d, found \"99999999999999h\"\n"},
        BadFile{"DurationWithoutUnit", "limits: {idle_timeout: 0}\n",
                "f:1:24: limits.idle_timeout: expected a duration such as 10ms (us, ms, s, m, h, d), found "
                "\"0\"; did "
                "you mean \"0s\"?\n"},
        BadFile{"SizeInDecimalUnits", "limits:\n  max_payload: 64MB\n",
                "f:2:16: limits.max_payload: expected a size such as 64MiB (B, KiB, MiB, GiB, TiB), found "
                "\"64MB\"; "
                "did you mean \"64MiB\"?\n"},
        BadFile{"SizeOutOfBounds", "limits: {max_payload: 0}\n",
                "f:1:23: limits.max_payload: expected a size from 1 to 1GiB, found \"0\"\n"},
        BadFile{"PortOutOfBounds", "listen: {port: 65536}\n",
                "f:1:16: listen.port: expected a whole number from 0 to 65535, found \"65536\"\n"},
        BadFile{
            "PortBeyondItsType", "listen: {port: 99999999999999999999}\n",
            "f:1:16: listen.port: expected a whole number from 0 to 65535, found \"99999999999999999999\"\n"},
        BadFile{"NegativeNumber", "pool: {workers: -1}\n",
                "f:1:17: pool.workers: expected a whole number from 0 to 1024, found \"-1\"\n"},
        BadFile{"FractionalNumber", "pool: {workers: 1.0}\n",
                "f:1:17: pool.workers: expected a whole number from 0 to 1024, found \"1.0\"\n"},
        BadFile{"HexadecimalNumber", "pool: {workers: 0x10}\n",
                "f:1:17: pool.workers: expected a whole number from 0 to 1024, found \"0x10\"\n"},
        BadFile{"LeadingZero", "pool: {workers: 017}\n",
                "f:1:17: pool.workers: expected a whole number without leading zeros, found \"017\"; did you "
                "mean "
                "\"17\"?\n"},
        BadFile{"LeadingZeroInADuration", "limits: {open_timeout: 010s}\n",
                "f:1:24: limits.open_timeout: expected a duration without leading zeros, found \"010s\"; did "
                "you mean "
                "\"10s\"?\n"},
        BadFile{
            "NumberInQuotes", "pool: {workers: \"4\"}\n",
            "f:1:17: pool.workers: expected a whole number from 0 to 1024, without quotes, found \"4\"\n"},
        BadFile{"NumberThatIsAMapping", "pool: {workers: {count: 4}}\n",
                "f:1:17: pool.workers: expected a whole number from 0 to 1024, found a mapping\n"},
        BadFile{"ValueThatIsMissing", "log:\n  level:\n  format: json\n",
                "f:2:3: log.level: expected trace, debug, info, warn or error, found nothing\n"},
        BadFile{"WordThatIsUnknown", "log: {format: jsno}\n",
                "f:1:15: log.format: expected text or json, found \"jsno\"; did you mean \"json\"?\n"},
        BadFile{"WordInAnotherSection", "scheduling: {share: fair}\n",
                "f:1:21: scheduling.share: expected time or jobs, found \"fair\"\n"},
        BadFile{"AddressThatIsAName", "listen: {address: localhost}\n",
                "f:1:19: listen.address: expected an IPv4 or IPv6 address such as 127.0.0.1, found "
                "\"localhost\"\n"},
        BadFile{"ExecThatIsNoWord", "exec: tru\n",
                "f:1:7: exec: expected false, true, or a mapping such as {max_output: 64MiB}, found \"tru\"; "
                "did you mean \"true\"?\n"},
        BadFile{
            "ExecThatIsAList", "exec: [true]\n",
            "f:1:7: exec: expected false, true, or a mapping such as {max_output: 64MiB}, found a list\n"},
        BadFile{"ExecWithOtherKeys", "exec: {max_outputs: 1MiB}\n",
                "f:1:8: exec.max_outputs: unknown key; did you mean \"max_output\"?\n"},
        BadFile{"ExecWithTooMuch", "exec: {max_output: 2GiB}\n",
                "f:1:20: exec.max_output: expected a size from 1 to 1GiB, found \"2GiB\"\n"},
        BadFile{"AddressThatIsEmpty", "http: {address: \"\"}\n",
                "f:1:17: http.address: expected an IPv4 or IPv6 address such as 127.0.0.1, found \"\"\n"},
        BadFile{"TextThatIsAList", "store: {path: [a]}\n",
                "f:1:15: store.path: expected the name of a file, found a list\n"},
        BadFile{"TextWithANul", "store: {path: \"a\\0b\"}\n",
                "f:1:15: store.path: expected the name of a file, found \"a\\x00b\"\n"},
        BadFile{"DatabaseThatIsNone", "store: {engine: postgresql, url: \"u:secret@db\"}\n",
                "f:1:34: store.url: expected a URL such as postgresql://locksley@db1:5432/locksley; in a "
                "password, @ : and "
                "/ are %40, %3A and %2F, found another text, which is not shown because it may have a "
                "password\n"},
        BadFile{"EveryProblemAtOnce",
                "listen: {port: x}\npool:\n  workers: 1\n  wrkers: 2\nlog:\n  level: loud\nshutdwn: {}\n",
                "f:1:16: listen.port: expected a whole number from 0 to 65535, found \"x\"\n"
                "f:4:3: pool.wrkers: unknown key; did you mean \"workers\"?\n"
                "f:6:10: log.level: expected trace, debug, info, warn or error, found \"loud\"\n"
                "f:7:1: shutdwn: unknown key; did you mean \"shutdown\"?\n"},
        BadFile{"ColumnsCountCharacters", "{\"h\xC3\xA9\": 1, pool: {workers: x}}\n",
                "f:1:2: h\xC3\xA9: unknown key, expected listen, http, workers, pool, scheduling, limits, "
                "store, cluster, lanes, "
                "handlers, "
                "customers, exec, users, upstream, metrics, log, process or shutdown\n"
                "f:1:27: pool.workers: expected a whole number from 0 to 1024, found \"x\"\n"},
        BadFile{"LinesEndAsOnWindows", "pool:\r\n  workers: x\r\n",
                "f:2:12: pool.workers: expected a whole number from 0 to 1024, found \"x\"\n"},
        BadFile{"PositionsAfterAByteOrderMark", "\xEF\xBB\xBFpool: {workers: x}\n",
                "f:1:17: pool.workers: expected a whole number from 0 to 1024, found \"x\"\n"}),
    name_of);

INSTANTIATE_TEST_SUITE_P(
    Contradictions, BadFileTest,
    testing::Values(
        BadFile{"EveryWorkerReserved", "pool: {workers: 4}\nscheduling: {reserved_workers: 4}\n",
                "f:2:32: scheduling.reserved_workers: expected less than pool.workers (4), found \"4\"\n"},
        BadFile{"SamePortTwice", "listen: {port: 9770}\n",
                "f:1:16: http.port: expected another port than listen.port, on the same address, found "
                "\"9770\"\n"},
        BadFile{"PayloadLargerThanCommand", "limits: {max_payload: 2MiB, max_command: 1MiB}\n",
                "f:1:23: limits.max_payload: expected at most limits.max_command (1MiB), found \"2MiB\"\n"},
        BadFile{
            "PayloadLargerThanTheQueue", "limits: {max_payload: 2MiB, max_queued_bytes: 1MiB}\n",
            "f:1:23: limits.max_payload: expected at most limits.max_queued_bytes (1MiB), found \"2MiB\"\n"},
        BadFile{
            "BatchLargerThanTheQueue", "limits: {max_batch_jobs: 11, max_queued_jobs: 10}\n",
            "f:1:26: limits.max_batch_jobs: expected at most limits.max_queued_jobs (10), found \"11\"\n"},
        BadFile{"NoneAfterAWrongValue", "listen: {port: 9770}\nhttp: {port: x}\n",
                "f:2:14: http.port: expected a whole number from 0 to 65535, found \"x\"\n"}),
    name_of);

INSTANTIATE_TEST_SUITE_P(
    Yaml, BadFileTest,
    testing::Values(
        BadFile{"SecondDocument", "pool: {workers: 1}\n---\npool: {workers: 2}\n",
                "f:2:1: expected one YAML document, found a second one\n"},
        BadFile{"SecondDocumentThatIsEmpty", "pool: {workers: 1}\n---\n",
                "f:2:1: expected one YAML document, found a second one\n"},
        BadFile{"Anchor", "pool: &p {workers: 1}\n",
                "f:1:7: pool: anchors (&name) are not supported: write each value out\n"},
        BadFile{"Alias", "log: {level: &l info, format: *l}\n",
                "f:1:14: log.level: anchors (&name) are not supported: write each value out\n"
                "f:1:31: log.format: aliases (*name) are not supported: write the value out\n"},
        BadFile{"AliasOfNothing", "log: *l\n",
                "f:1:6: not valid YAML: the referenced anchor is not defined\n"},
        BadFile{"MergeKey", "http:\n  <<: {port: 1}\n",
                "f:2:3: http.<<: merge keys (<<) are not supported: write the values out\n"},
        BadFile{"Tag", "pool: {workers: !!int 4}\n",
                "f:1:17: pool.workers: tags (!name) are not supported: write the plain value\n"},
        BadFile{"ClosingQuoteMissing", "log:\n  level: \"info\n  format: text\n",
                "f:2:10: log.level: expected a closing quote, found the end of the file\n"},
        BadFile{"ClosingApostropheMissing", "log:\n  level: 'it''s\n",
                "f:2:10: log.level: expected a closing quote, found the end of the file\n"},
        BadFile{"ClosingQuoteMissingBehindABackslash", "log:\n  level: \"info\\",
                "f:2:16: expected a closing quote, found the end of the file\n"},
        BadFile{"UnknownEscape", "store: {path: \"C:\\data\"}\n",
                "f:1:18: not valid YAML: unknown escape \"\\d\": in double quotes a backslash is written "
                "twice\n"},
        BadFile{"UnknownEscapeOfACharacterOfTwoBytes", "store: {path: \"a\\é\"}\n",
                "f:1:17: not valid YAML: unknown escape \"\\é\": in double quotes a backslash is written "
                "twice\n"},
        BadFile{"UnknownEscapeAtTheEnd", "store: {path: \"a\\q",
                "f:1:17: not valid YAML: unknown escape \"\\q\": in double quotes a backslash is written "
                "twice\n"},
        BadFile{"EscapesOfSpacesAreCharacters", "log: {level: \"\\N\\_é\\xe9\"}\n",
                "f:1:14: log.level: expected trace, debug, info, warn or error, found "
                "\"\u0085\u00a0éé\"\n"},
        BadFile{"BracketMissing", "pool: {workers: 1\n",
                "f:2:1: not valid YAML: end of map flow not found\n"},
        BadFile{"ColonTwice", "pool: workers: 1\n", "f:1:14: not valid YAML: illegal map value\n"},
        BadFile{
            "TabAsIndentation", "pool:\n\tworkers: 1\n",
            "f:2:9: not valid YAML: illegal map value (the line is indented with a tab, which YAML does not "
            "allow)\n"},
        BadFile{"NotUtf8", "log: {level: inf\xFF}\n",
                "f:1:17: expected text in UTF-8, found a byte that is not, or a control character\n"},
        BadFile{"Utf16", std::string("\xFF\xFEl\0o\0g\0", 8),
                "f:1:1: expected text in UTF-8, found a byte that is not, or a control character\n"},
        BadFile{"ControlCharacter", "log:\n  level: \x1B[1minfo\n",
                "f:2:10: expected text in UTF-8, found a byte that is not, or a control character\n"}),
    name_of);

INSTANTIATE_TEST_SUITE_P(
    Certificates, BadFileTest,
    testing::Values(
        BadFile{"KeyIsMissing", "listen:\n  tls: {certificate: a.pem}\n",
                "f:2:3: listen.tls: expected certificate and key together, found certificate alone\n"},
        BadFile{"Threads", "listen: {threads: 65}\n",
                "f:1:19: listen.threads: expected a whole number from 1 to 64, or auto, found \"65\"\n"},
        BadFile{"CertificateIsMissing", "http:\n  tls: {key: a.pem}\n",
                "f:2:3: http.tls: expected certificate and key together, found key alone\n"}),
    name_of);

INSTANTIATE_TEST_SUITE_P(
    Entries, BadFileTest,
    testing::Values(
        BadFile{"TimeoutFinerThanABatchCouldSay", "handlers:\n  a: {command: [cat], timeout: 1500us}\n",
                "f:2:32: handlers.a.timeout: expected whole milliseconds, found \"1500us\"\n"},
        BadFile{"HandlerOfNoKind", "handlers:\n  a: {}\n",
                "f:2:3: handlers.a: expected exactly one of command, worker and plugin, found none\n"},
        BadFile{"HandlerOfTwoKinds", "handlers:\n  a: {command: [x], plugin: y}\n",
                "f:2:3: handlers.a: expected exactly one of command, worker and plugin, found 2\n"},
        BadFile{"HandlerThatIsNothing", "handlers:\n  a:\n",
                "f:2:3: handlers.a: expected a mapping of keys, found nothing\n"},
        BadFile{
            "HandlerWithABadName", "handlers:\n  a.b: {plugin: x}\n",
            "f:2:3: handlers.a.b: expected a name of at most 64 letters, digits, - and _, found \"a.b\"\n"},
        BadFile{"HandlerTwice", "handlers:\n  a: {plugin: x}\n  a: {plugin: y}\n",
                "f:3:3: handlers.a: expected each key once, found it again; it is also on line 2\n"},
        BadFile{"HandlerThatIsAList", "handlers: [a]\n",
                "f:1:11: handlers: expected a mapping of names, found a list\n"},
        BadFile{"HandlerKeys",
                "handlers:\n  a:\n    worker: [x]\n    timeut: 5s\n    concurrency: 0\n    rate: 5\n    "
                "retries: -1\n",
                "f:4:5: handlers.a.timeut: unknown key; did you mean \"timeout\"?\n"
                "f:5:18: handlers.a.concurrency: expected a whole number from 1 to 10000, found \"0\"\n"
                "f:6:11: handlers.a.rate: expected a rate such as 20/s (/s, /m, /h), found \"5\"\n"
                "f:7:14: handlers.a.retries: expected a whole number from 0 to 1000, found \"-1\"\n"},
        BadFile{"CommandThatIsAText", "handlers:\n  a: {command: wc -l}\n",
                "f:2:16: handlers.a.command: expected a list such as [first, second], found \"wc -l\"\n"},
        BadFile{"CommandThatIsEmpty", "handlers:\n  a: {command: []}\n",
                "f:2:16: handlers.a.command: expected a list such as [first, second], with one item at "
                "least, found "
                "an empty list\n"},
        BadFile{"ArgumentThatIsAList", "handlers:\n  a: {command: [x, [y]]}\n",
                "f:2:20: handlers.a.command[1]: expected a text, found a list\n"},
        BadFile{"ProgramWithoutName", "handlers:\n  a: {worker: [\"\", x]}\n",
                "f:2:7: handlers.a.worker: expected the name of a program first, found \"\"\n"},
        BadFile{
            "ArgumentWithNoPlace", "handlers:\n  a: {command: [curl], input: argument}\n",
            "f:2:7: handlers.a.command: expected {} in an argument, because input is argument, found none\n"},
        BadFile{"ArgumentForAWorker", "handlers:\n  a: {worker: [x], input: argument}\n",
                "f:2:27: handlers.a.input: expected input with a command only, found \"argument\"\n"},
        BadFile{
            "KeysOfAnotherKind",
            "handlers:\n  a: {plugin: x, concurrency: 2, rate: 5/s}\n  b: {command: [x], max_jobs: 5, "
            "isolate: true}\n",
            "f:2:31: handlers.a.concurrency: expected concurrency with a command, a worker or an isolated "
            "plugin only, found it with a plugin that is not isolated\n"
            "f:2:40: handlers.a.rate: expected rate with a command, a worker or an isolated plugin only, "
            "found it with a plugin that is not isolated\n"
            "f:3:31: handlers.b.max_jobs: expected max_jobs with a worker or an isolated plugin only, found "
            "it with a command\n"
            "f:3:43: handlers.b.isolate: expected isolate with a plugin only, found it with a command\n"},
        BadFile{"BadVariables", "handlers:\n  a: {command: [x], environment: [\"A=1\", \"=2\", \"3\"]}\n",
                "f:2:42: handlers.a.environment[1]: expected a variable such as LANG=C.UTF-8, found \"=2\"\n"
                "f:2:48: handlers.a.environment[2]: expected a variable such as LANG=C.UTF-8, found \"3\"\n"},
        BadFile{"PartsOfASecond", "handlers:\n  a: {command: [x], limits: {cpu: 1500ms}}\n",
                "f:2:35: handlers.a.limits.cpu: expected whole seconds, found \"1500ms\"\n"},
        BadFile{"HostsThatAreNoNames", "http: {hosts: [\"a:80\", b, \"\"]}\n",
                "f:1:16: http.hosts[0]: expected the name of a host, without a port, such as "
                "locksley.example, found \"a:80\"\n"
                "f:1:27: http.hosts[2]: expected the name of a host, without a port, such as "
                "locksley.example, found \"\"\n"},
        BadFile{"UserWithoutPassword", "users:\n  alice: {weight: 0}\n",
                "f:2:3: users.alice: expected a password_hash or a certificate, found none\n"
                "f:2:19: users.alice.weight: expected a whole number from 1 to 1000, found \"0\"\n"},
        BadFile{
            "OneCertificateOfTwoUsers",
            "users:\n  al: {certificate: x}\n  bo: {certificate: y}\n  cy: {certificate: x}\n",
            "f:4:21: users.cy.certificate: expected a common name that no other user has, found \"x\", as "
            "in users.al.certificate\n"},
        BadFile{"PasswordInPlaceOfAHash", "users:\n  al: {password_hash: xyzzy}\n",
                "f:2:23: users.al.password_hash: expected the argon2id hash that `locksley hash-password` "
                "prints, found another text\n"},
        BadFile{"HashThatCostsTooMuch",
                "users:\n  al: {password_hash: "
                "\"$argon2id$v=19$m=9999999,t=1,p=1$c2FsdHNhbHQ$aGFzaGhhc2hoYXNoaGFzaA\"}\n",
                "f:2:23: users.al.password_hash: expected the argon2id hash that `locksley hash-password` "
                "prints, found m=9999999, more than 262144\n"},
        BadFile{"UserWithUnknownCommands", "users:\n  al: {certificate: al, commands: [read, sumbit]}\n",
                "f:2:42: users.al.commands[1]: expected submit, read, control, admin or work, found "
                "\"sumbit\"; did "
                "you mean "
                "\"submit\"?\n"}),
    name_of);

}  // namespace
}  // namespace locksley::config
