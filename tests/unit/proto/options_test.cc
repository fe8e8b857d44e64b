// The options of SUBMIT, OPEN and RUN, and those of the commands that read.
// Length: a table of options and messages, a test for each command.

#include <gmock/gmock.h>

#include <algorithm>
#include <sstream>

#include "proto/read_options.h"
#include "proto/submit_options.h"

namespace locksley::proto {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// The words of `line`; '~' stands for an empty argument.
ArgumentList words(const std::string& line) {
  std::istringstream in(line);
  std::vector<std::string> parts;
  for (std::string word; in >> word;) parts.push_back(word == "~" ? "" : word);
  const std::vector<std::string_view> views(parts.begin(), parts.end());
  return ArgumentList::copy_of(views);
}

std::string submit_error(const std::string& line) {
  const auto parsed = parse_submit(words("SUBMIT echo " + line));
  return parsed ? "accepted" : parsed.error();
}

constexpr const char* kTrace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

TEST(SubmitOptionsTest, DefaultsWhenNothingIsSaid) {
  const auto parsed = parse_submit(words("SUBMIT echo JOBS a b"));
  ASSERT_TRUE(parsed) << parsed.error();
  EXPECT_EQ(parsed->handler, "echo");
  EXPECT_EQ(parsed->options.weight, 1u);
  EXPECT_EQ(parsed->options.keep, Keep::kAll);
  EXPECT_TRUE(parsed->options.id.empty());
  EXPECT_FALSE(parsed->options.timeout || parsed->options.deadline || parsed->options.retain);
  EXPECT_FALSE(parsed->options.delay || parsed->options.retries || !parsed->options.after.empty());
  EXPECT_FALSE(parsed->options.slots || parsed->options.max_fails || parsed->options.ephemeral);
  EXPECT_EQ(std::get<JobsSource>(parsed->source).first, 3u);
}

TEST(SubmitOptionsTest, AllOptionsInAnyCase) {
  const auto parsed =
      parse_submit(words(std::string("submit sha256 id my-id NAME n Weight 1000 timeout 5 DEADLINE 7 "
                                     "keep FAILURES retain 0 SLOTS 3 maxfails 9 ephemeral TRACE ") +
                         kTrace + " jobs ID"));
  ASSERT_TRUE(parsed) << parsed.error();
  const BatchOptions& options = parsed->options;
  EXPECT_EQ(options.id, "my-id");
  EXPECT_EQ(options.name, "n");
  EXPECT_EQ(options.weight, 1000u);
  EXPECT_EQ(options.timeout, milliseconds(5));
  EXPECT_EQ(options.deadline, milliseconds(7));
  EXPECT_EQ(options.keep, Keep::kFailures);
  EXPECT_EQ(options.retain, seconds(0));
  EXPECT_EQ(options.slots, 3u);
  EXPECT_EQ(options.max_fails, 9u);
  EXPECT_TRUE(options.ephemeral);
  EXPECT_EQ(options.trace, kTrace);
  EXPECT_EQ(std::get<JobsSource>(parsed->source).first, 24u)
      << "behind JOBS everything is a payload, even 'ID'";
}

TEST(SubmitOptionsTest, WhenItStartsAndHowOftenAJobIsTried) {
  const auto parsed = parse_submit(
      words("SUBMIT echo after b AFTEROK a Delay 20 AFTER c retries 0 AFTEROK b AFTER a JOBS x"));
  ASSERT_TRUE(parsed) << parsed.error();
  const BatchOptions& options = parsed->options;
  EXPECT_EQ(options.delay, milliseconds(20));
  EXPECT_EQ(options.retries, 0u) << "said, though it is nothing";
  std::string after;
  for (const AfterBatch& other : options.after) after += other.id + (other.only_if_ok ? "! " : " ");
  EXPECT_EQ(after, "b! a! c ") << "each once, the stricter one";
}

// Options that differ from their defaults in each member. A new option needs a line here.
BatchOptions all_options() {
  BatchOptions options;
  options.id = "my-id";
  options.name = "a name";
  options.customer = "a-customer";
  options.weight = 7;
  options.timeout = milliseconds(1);
  options.deadline = milliseconds(2);
  options.delay = milliseconds(3);
  options.after = {{"a", false}, {"b", false}, {"c", true}};
  options.retries = 0;
  options.keep = Keep::kNone;
  options.retain = seconds(0);
  options.slots = 4;
  options.max_fails = 5;
  options.ephemeral = true;
  options.trace = kTrace;
  return options;
}

TEST(SubmitOptionsTest, ForNamesACustomer) {
  for (const std::string& name : {std::string("acme"), std::string("user/acme"), std::string("!\"#/~"),
                                  std::string(64, 'u') + "/" + std::string(128, 'c')}) {
    const auto parsed = parse_submit(words("SUBMIT echo For " + name + " JOBS a"));
    ASSERT_TRUE(parsed) << parsed.error();
    EXPECT_EQ(parsed->options.customer, name);
  }
  const std::string expected =
      "ERR option 'FOR' needs 1 to 128 printable ASCII characters without spaces, found '";
  EXPECT_EQ(submit_error("FOR ~ JOBS a"), expected + "'");
  EXPECT_EQ(submit_error("FOR h\xC3\xA9 JOBS a"), expected +
                                                      "h?"
                                                      "?'");
  EXPECT_EQ(submit_error("FOR a FOR b JOBS a"), "ERR option 'FOR' is given twice");
  EXPECT_TRUE(submit_error("FOR " + std::string(194, 'c') + " JOBS a").starts_with(expected));
}

TEST(BatchOptionsTest, WordsOfOptionsAreParsedBackToTheSameOptions) {
  std::vector<std::string> line{"SUBMIT", "echo"};
  const std::vector<std::string> said = words_of(all_options());
  line.insert(line.end(), said.begin(), said.end());
  line.insert(line.end(), {"JOBS", "x"});
  const std::vector<std::string_view> views(line.begin(), line.end());
  const auto parsed = parse_submit(ArgumentList::copy_of(views));
  ASSERT_TRUE(parsed) << parsed.error();
  EXPECT_EQ(parsed->options, all_options());
  EXPECT_EQ(words_of(BatchOptions()), std::vector<std::string>());
}

TEST(BatchOptionsTest, EachRowOfTheTableHasAMemberThatIsWritten) {
  const std::vector<std::string> said = words_of(all_options());
  for (const BatchOption& option : kBatchOptions) {
    EXPECT_EQ(find_batch_option(option.name), &option);
    EXPECT_NE(std::ranges::find(said, option.name), said.end()) << option.name;
    EXPECT_FALSE(option.help.empty() || option.help.ends_with('.')) << option.name;
  }
}

TEST(BatchOptionsTest, NothingElseIsAnOption) {
  for (const std::string_view word : {"", "I", "IDS", "JOBS", "RANGE", "max-fails", "AFTERNO", "NAMF"}) {
    EXPECT_EQ(find_batch_option(word), nullptr) << word;
  }
}

TEST(SubmitOptionsTest, ABatchWaitsForABoundedNumber) {
  std::string line;
  for (std::size_t i = 0; i < BatchOptions::kMaxAfter; ++i) line += "AFTER " + std::to_string(i) + " ";
  EXPECT_EQ(submit_error(line + "AFTEROK 7 JOBS a"), "accepted");
  EXPECT_EQ(submit_error(line + "AFTER x JOBS a"), "ERR a batch waits for at most 1000 others");
  EXPECT_EQ(submit_error(line + line + "JOBS a"), "accepted");
  EXPECT_EQ(submit_error(line + line + "AFTER 0 JOBS a"), "ERR a command has at most 2000 AFTER and AFTEROK");
}

TEST(SubmitOptionsTest, ACommandWithManyWaitsIsKnownBeforeItIsParsed) {
  const auto has_more = [](const std::string& line) { return has_more_waits(words(line), 2); };
  EXPECT_TRUE(has_more("SUBMIT echo AFTER a EPHEMERAL WEIGHT 3 afterok b NAME after AFTER c JOBS x"));
  EXPECT_TRUE(has_more("OPEN echo AFTER a AFTER a AFTER a"));
  EXPECT_FALSE(has_more("SUBMIT echo AFTER a NAME AFTER AFTEROK b JOBS x")) << "it has two";
  EXPECT_FALSE(has_more("SUBMIT echo JOBS AFTER a AFTER b AFTER c")) << "payloads";
  EXPECT_FALSE(has_more("SUBMIT echo AFTER a AFTER b NAME")) << "it is wrong, and parse_submit() says so";
}

TEST(SubmitOptionsTest, AnEphemeralCommandIsKnownBeforeItIsParsed) {
  const auto ephemeral = [](const std::string& line) { return is_ephemeral(words(line)); };
  EXPECT_TRUE(ephemeral("SUBMIT echo ID a AFTER b ephemeral NAME x JOBS y"));
  EXPECT_TRUE(ephemeral("OPEN echo EPHEMERAL"));
  EXPECT_FALSE(ephemeral("SUBMIT echo NAME EPHEMERAL ID EPHEMERAL JOBS x")) << "values";
  EXPECT_FALSE(ephemeral("SUBMIT echo JOBS EPHEMERAL")) << "a payload";
  EXPECT_FALSE(ephemeral("OPEN echo"));
}

TEST(SubmitOptionsTest, RangesWithAndWithoutPayload) {
  const auto plain = parse_submit(words("SUBMIT echo RANGE -5 5"));
  ASSERT_TRUE(plain) << plain.error();
  const auto& range = std::get<RangeSource>(plain->source);
  EXPECT_EQ(range.low, -5);
  EXPECT_EQ(range.high, 5);
  EXPECT_EQ(range.size(), 10u);
  EXPECT_EQ(range.payload_at, std::nullopt);
  const auto with = parse_submit(words("SUBMIT echo RANGE 0 1 n={}"));
  ASSERT_TRUE(with);
  EXPECT_EQ(std::get<RangeSource>(with->source).payload_at, 5u);
  const auto empty = parse_submit(words("SUBMIT echo RANGE 7 7 ~"));
  ASSERT_TRUE(empty) << "no jobs, but a batch";
  EXPECT_EQ(std::get<RangeSource>(empty->source).size(), 0u);
  EXPECT_EQ(std::get<RangeSource>(empty->source).payload_at, 5u);
  const auto widest = parse_submit(words("SUBMIT echo RANGE -9223372036854775808 9223372036854775807"));
  ASSERT_TRUE(widest);
  EXPECT_EQ(std::get<RangeSource>(widest->source).size(), 18446744073709551615u);
}

TEST(SubmitOptionsTest, ErrorsNameTheOptionWhatWasExpectedAndWhatWasFound) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"WEIGHT 0 JOBS a", "ERR option 'WEIGHT' needs an integer from 1 to 1000, found '0'"},
      {"weight 1001 JOBS a", "ERR option 'WEIGHT' needs an integer from 1 to 1000, found '1001'"},
      {"WEIGHT +1 JOBS a", "ERR option 'WEIGHT' needs an integer from 1 to 1000, found '+1'"},
      {"WEIGHT 01 JOBS a", "ERR option 'WEIGHT' needs an integer from 1 to 1000, found '01'"},
      {"WEIGHT 1.5 JOBS a", "ERR option 'WEIGHT' needs an integer from 1 to 1000, found '1.5'"},
      {"WEIGHT ~ JOBS a", "ERR option 'WEIGHT' needs an integer from 1 to 1000, found ''"},
      {"TIMEOUT 0 JOBS a",
       "ERR option 'TIMEOUT' needs an integer of milliseconds from 1 to 315360000000, found '0'"},
      {"DEADLINE -1 JOBS a",
       "ERR option 'DEADLINE' needs an integer of milliseconds from 1 to 315360000000, found '-1'"},
      {"TIMEOUT 30s JOBS a",
       "ERR option 'TIMEOUT' needs an integer of milliseconds from 1 to 315360000000, found '30s'"},
      {"RETAIN x JOBS a", "ERR option 'RETAIN' needs an integer of seconds from 0 to 315360000, found 'x'"},
      {"SLOTS 0 JOBS a", "ERR option 'SLOTS' needs an integer from 1 to 4294967295, found '0'"},
      {"MAXFAILS 4294967296 JOBS a",
       "ERR option 'MAXFAILS' needs an integer from 1 to 4294967295, found '4294967296'"},
      {"KEEP some JOBS a", "ERR option 'KEEP' needs all, failures or none, found 'some'"},
      {"TRACE x JOBS a", "ERR option 'TRACE' needs a W3C traceparent, found 'x'"},
      {"ID ~ JOBS a", "ERR option 'ID' needs 1 to 128 printable ASCII characters without spaces, found ''"},
      {"DELAY 0 JOBS a",
       "ERR option 'DELAY' needs an integer of milliseconds from 1 to 315360000000, found '0'"},
      {"DELAY 1 DELAY 1 JOBS a", "ERR option 'DELAY' is given twice"},
      {"retries 1001 JOBS a", "ERR option 'RETRIES' needs an integer from 0 to 1000, found '1001'"},
      {"AFTER ~ JOBS a", "ERR option 'AFTER' needs the id of a batch, found ''"},
      {"AFTEROK", "ERR option 'AFTEROK' needs a value"},
      {"AFTER x ID y AFTEROK y JOBS a", "ERR the batch 'y' cannot wait for itself"},
      {"TEMPLATE a{} RANGE 0 5",
       "ERR unknown option 'TEMPLATE': payloads follow the word JOBS; one with {} may follow RANGE low high"},
      {"ID JOBS a",
       "ERR unknown option 'a': payloads follow the word JOBS; one with {} may follow RANGE low high; "
       "option 'ID' took 'JOBS' as its value"},
      {"NAME weight 5 JOBS a",
       "ERR unknown option '5': payloads follow the word JOBS; one with {} may follow RANGE low high; "
       "option 'NAME' took 'weight' as its value"},
      {"ID jobs",
       "ERR the jobs are missing: expected JOBS payload ... or RANGE low high; option 'ID' took 'jobs' as "
       "its value"},
      {"ID a ID b JOBS a", "ERR option 'ID' is given twice"},
      {"EPHEMERAL EPHEMERAL JOBS a", "ERR option 'EPHEMERAL' is given twice"},
      {"EPHEMERAL ID", "ERR option 'ID' needs a value"},
      {"ID x", "ERR the jobs are missing: expected JOBS payload ... or RANGE low high"},
      {"ID x JOBS", "ERR JOBS needs at least one payload"},
      {"RANGE 1", "ERR RANGE needs low, high and at most one payload"},
      {"RANGE 1 2 a b", "ERR RANGE needs low, high and at most one payload"},
      {"RANGE 1 x", "ERR RANGE needs integers of 64 bits, found 'x'"},
      {"RANGE 9223372036854775808 1", "ERR RANGE needs integers of 64 bits, found '9223372036854775808'"},
      {"RANGE 2 1", "ERR RANGE needs low <= high, found 2 and 1"},
  };
  for (const auto& [line, error] : cases) EXPECT_EQ(submit_error(line), error) << line;
}

TEST(SubmitOptionsTest, IdsAndNamesHaveBoundsOfLengthAndCharacters) {
  EXPECT_TRUE(is_valid_batch_id(std::string(128, '!')));
  EXPECT_FALSE(is_valid_batch_id(std::string(129, 'a')));
  for (const std::string_view bad : {"", "a b", "a\n", "\x7f", "\xc3\xa9"})
    EXPECT_FALSE(is_valid_batch_id(bad)) << bad;
  const auto named = [](std::string_view name) {
    return parse_open(ArgumentList::copy_of(std::vector<std::string_view>{"OPEN", "echo", "NAME", name}))
        .has_value();
  };
  EXPECT_TRUE(named("caf\xc3\xa9 and tea"));
  EXPECT_TRUE(named(std::string(256, 'n')));
  EXPECT_FALSE(named(std::string(257, 'n')));
  EXPECT_FALSE(named("line\nfeed"));
}

TEST(SubmitOptionsTest, TraceparentsAreCheckedAsTheStandardSays) {
  EXPECT_TRUE(is_valid_traceparent(kTrace));
  for (const std::string_view bad : {"", "01-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
                                     "00-4BF92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
                                     "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
                                     "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
                                     "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-0",
                                     "00_4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"}) {
    EXPECT_FALSE(is_valid_traceparent(bad)) << bad;
  }
}

TEST(OpenOptionsTest, TakesOptionsAndNoJobs) {
  const auto parsed = parse_open(words("OPEN echo ID x SLOTS 2"));
  ASSERT_TRUE(parsed) << parsed.error();
  EXPECT_EQ(parsed->options.id, "x");
  EXPECT_EQ(parsed->options.slots, 2u);
  EXPECT_EQ(parse_open(words("OPEN echo JOBS a")).error(), "ERR OPEN takes no jobs, found 'JOBS': use ADD");
}

TEST(RunOptionsTest, TakesJobsAndNoRange) {
  const auto parsed = parse_run(words("RUN echo WEIGHT 2 JOBS a b"));
  ASSERT_TRUE(parsed) << parsed.error();
  EXPECT_EQ(std::get<JobsSource>(parsed->source).first, 5u);
  EXPECT_EQ(parse_run(words("RUN echo RANGE 1 2")).error(), "ERR RUN takes JOBS payload ..., not RANGE");
  EXPECT_EQ(parse_run(words("RUN echo ID x")).error(), "ERR the jobs are missing: expected JOBS payload ...");
}

TEST(ReadOptionsTest, Results) {
  const auto plain = parse_results(words("RESULTS x"));
  ASSERT_TRUE(plain);
  EXPECT_EQ(plain->from, 0u);
  EXPECT_EQ(plain->count, 1000u);
  EXPECT_EQ(plain->block, std::nullopt);
  const ArgumentList full = words("RESULTS x block 0 COUNT 5 from 17");
  const auto parsed = parse_results(full);
  ASSERT_TRUE(parsed) << parsed.error();
  EXPECT_EQ(parsed->id, "x");
  EXPECT_EQ(parsed->from, 17u);
  EXPECT_EQ(parsed->count, 5u);
  EXPECT_EQ(parsed->block, milliseconds(0));
  EXPECT_EQ(parse_results(words("RESULTS x COUNT 0")).error(),
            "ERR option 'COUNT' needs an integer from 1 to 1000000, found '0'");
  EXPECT_EQ(parse_results(words("RESULTS x FROM")).error(), "ERR option 'FROM' needs a value");
  EXPECT_EQ(parse_results(words("RESULTS x OFFSET 1")).error(), "ERR unknown option 'OFFSET'");
  EXPECT_EQ(parse_results(words("RESULTS x FROM 1 from 2")).error(), "ERR option 'FROM' is given twice");
  EXPECT_FALSE(parsed->discards);
  for (const char* text : {"RESULTS x FROM 7 COUNT 5 discard", "RESULTS x DISCARD FROM 7 COUNT 5"}) {
    const auto discarding = parse_results(words(text));
    ASSERT_TRUE(discarding) << discarding.error();
    EXPECT_TRUE(discarding->discards);
    EXPECT_EQ(discarding->from, 7u);
    EXPECT_EQ(discarding->count, 5u);
  }
  EXPECT_EQ(parse_results(words("RESULTS x DISCARD")).error(), "ERR option 'DISCARD' needs 'FROM'");
  EXPECT_EQ(parse_results(words("RESULTS x FROM 1 DISCARD DISCARD")).error(),
            "ERR option 'DISCARD' is given twice");
}

TEST(ReadOptionsTest, List) {
  const auto plain = parse_list(words("LIST"));
  ASSERT_TRUE(plain);
  EXPECT_TRUE(plain->state.empty());
  EXPECT_EQ(plain->match, std::nullopt);
  EXPECT_EQ(plain->count, 100u);
  const ArgumentList full = words("LIST STATE Running MATCH a* CURSOR 9 COUNT 10000");
  const auto parsed = parse_list(full);
  ASSERT_TRUE(parsed) << parsed.error();
  EXPECT_EQ(parsed->state, "running");
  EXPECT_EQ(parsed->match, "a*");
  EXPECT_EQ(parsed->cursor, 9u);
  EXPECT_EQ(parse_list(words("LIST STATE asleep")).error(),
            "ERR option 'STATE' needs open, queued, running, done or cancelled, found 'asleep'");
  EXPECT_TRUE(parse_list(words("LIST MATCH " + std::string(256, '*'))));
  EXPECT_TRUE(parse_list(words("LIST MATCH " + std::string(257, '*')))
                  .error()
                  .starts_with("ERR option 'MATCH' needs at most 256 bytes, found '***"));
}

TEST(ReadOptionsTest, RetryAndItsRound) {
  EXPECT_EQ(parse_retry(words("RETRY x"))->round, std::nullopt);
  EXPECT_EQ(parse_retry(words("RETRY x round 0"))->round, 0u);
  EXPECT_EQ(parse_retry(words("RETRY x ROUND 7"))->round, 7u);
  EXPECT_EQ(parse_retry(words("RETRY x ROUND")).error(), "ERR option 'ROUND' needs a value");
  EXPECT_THAT(parse_retry(words("RETRY x 7"))->indexes, ::testing::ElementsAre(7u));
  EXPECT_THAT(parse_retry(words("RETRY x ROUND 2 7 0 7"))->indexes, ::testing::ElementsAre(7u, 0u, 7u));
  EXPECT_EQ(parse_retry(words("RETRY x 7 y")).error(),
            "ERR the index of a job needs an integer from 0 to 9223372036854775807, found 'y'");
  EXPECT_FALSE(parse_retry(words("RETRY x 7 ROUND 2"))) << "the round comes first";
  std::string many = "RETRY x";
  for (std::size_t i = 0; i < RetryCommand::kMaxIndexes; ++i) many += " 1";
  EXPECT_TRUE(parse_retry(words(many)));
  EXPECT_FALSE(parse_retry(words(many + " 1")));
  EXPECT_FALSE(parse_retry(words("RETRY x ROUND -1")));
}

TEST(ReadOptionsTest, WaitAndWeight) {
  EXPECT_EQ(parse_wait(words("WAIT x"))->timeout, std::nullopt);
  EXPECT_EQ(parse_wait(words("WAIT x 0"))->timeout, std::nullopt);
  EXPECT_EQ(parse_wait(words("WAIT x 250"))->timeout, milliseconds(250));
  EXPECT_EQ(parse_wait(words("WAIT x -1")).error(),
            "ERR timeout needs an integer of milliseconds from 0 to 315360000000, found '-1'");
  EXPECT_EQ(parse_weight(words("WEIGHT x 7"))->weight, 7u);
  EXPECT_EQ(parse_weight(words("WEIGHT x 1001")).error(),
            "ERR weight needs an integer from 1 to 1000, found '1001'");
}

TEST(ReadOptionsTest, OfOneJob) {
  EXPECT_EQ(parse_job(words("JOB x 7"))->index, 7u);
  EXPECT_EQ(parse_job(words("JOB x y")).error(),
            "ERR the index of a job needs an integer from 0 to 9223372036854775807, found 'y'");
  const auto log = parse_log(words("LOG x 7 block 0 from 5"));
  EXPECT_EQ(log->index, 7u);
  EXPECT_EQ(log->from, 5u);
  EXPECT_EQ(log->block, std::chrono::milliseconds(0));
  EXPECT_EQ(parse_log(words("LOG x 7"))->block, std::nullopt);
  EXPECT_EQ(parse_log(words("LOG x 7 FROM")).error(), "ERR option 'FROM' needs a value");
}

TEST(ReadOptionsTest, OfRunning) {
  EXPECT_EQ(parse_running(words("RUNNING"))->id, std::nullopt);
  EXPECT_EQ(parse_running(words("RUNNING x"))->id, "x");
  EXPECT_EQ(parse_running(words("RUNNING count 3"))->count, 3u);
  EXPECT_EQ(parse_running(words("RUNNING count 3"))->id, std::nullopt);
  EXPECT_EQ(parse_running(words("RUNNING x COUNT 3"))->count, 3u);
  EXPECT_EQ(parse_running(words("RUNNING x COUNT")).error(), "ERR option 'COUNT' needs a value");
  EXPECT_EQ(parse_running(words("RUNNING x foo")).error(), "ERR unknown option 'foo'");
  EXPECT_EQ(parse_running(words("RUNNING COUNT"))->id, "COUNT");
  EXPECT_FALSE(parse_running(words("RUNNING COUNT 0")).has_value());
}

TEST(ListTest, ByCustomerAndByHandler) {
  const auto arguments = words("LIST FOR acme handler echo");  // parsed has views of them
  const auto parsed = parse_list(arguments);
  ASSERT_TRUE(parsed) << parsed.error();
  EXPECT_EQ(parsed->customer, "acme");
  EXPECT_EQ(parsed->handler, "echo");
  EXPECT_EQ(parse_list(words("LIST FOR ~"))->customer, "") << "batches for none";
  EXPECT_FALSE(parse_list(words("LIST"))->customer);
  EXPECT_FALSE(parse_list(words("LIST FOR \x01")));
  EXPECT_EQ(parse_list(words("LIST HANDLER")).error(), "ERR option 'HANDLER' needs a value");
}

TEST(SlotsTest, ANumberOrNone) {
  EXPECT_EQ(parse_slots(words("SLOTS b 7"))->slots, 7U);
  EXPECT_EQ(parse_slots(words("SLOTS b 0"))->slots, 0U);
  EXPECT_EQ(parse_slots(words("SLOTS b 4294967295"))->slots, 4294967295U);
  EXPECT_EQ(parse_slots(words("SLOTS b 4294967296")).error(),
            "ERR slots needs an integer from 0 to 4294967295, found '4294967296'");
}

TEST(CustomerTest, WhatIsSaidIsThereAndNothingElse) {
  const auto arguments = words("CUSTOMER SET acme rate 300/m WEIGHT 7");  // parsed has views of them
  const auto parsed = parse_customer_set(arguments);
  ASSERT_TRUE(parsed) << parsed.error();
  EXPECT_EQ(parsed->name, "acme");
  EXPECT_EQ(parsed->changes.weight, 7U);
  EXPECT_EQ(parsed->changes.rate, (CustomerRate{300, std::chrono::minutes(1)}));
  EXPECT_FALSE(parsed->changes.slots || parsed->changes.max_jobs);
  EXPECT_TRUE(parse_customer_set(words("CUSTOMER SET acme"))->changes.is_empty());
  const auto lifting = words("CUSTOMER SET ~ SLOTS 0 RATE 0 MAXJOBS 0");  // lifted has views of them
  const auto lifted = parse_customer_set(lifting);
  ASSERT_TRUE(lifted);
  EXPECT_EQ(lifted->changes, (CustomerSettings{.slots = 0, .rate = CustomerRate{}, .max_jobs = 0}));
  EXPECT_EQ(parse_customer_set(words("CUSTOMER SET acme WEIGHT 0")).error(),
            "ERR option 'WEIGHT' needs an integer from 1 to 1000, found '0'");
}

TEST(CustomerTest, RatesAreWrittenAsTheyAreRead) {
  for (const std::string text : {"1/s", "20/s", "300/m", "5/h", "1000000/s", "0"})
    EXPECT_EQ(to_string(parse_customer_rate(text).value()), text);
  EXPECT_EQ(to_string(parse_customer_rate("0/h").value()), "0");
  for (const std::string text :
       {"", "20", "20/", "/s", "20/d", "-1/s", "01/s", "1000001/s", "20/s ", "2.5/s", "0/x"})
    EXPECT_FALSE(parse_customer_rate(text)) << text;
}

TEST(CustomerTest, WhatIsSaidLaterIsTakenOver) {
  CustomerSettings settings{.weight = 2, .slots = 3};
  settings.merge({.slots = 0, .max_jobs = 9});
  EXPECT_EQ(settings, (CustomerSettings{.weight = 2, .slots = 0, .max_jobs = 9}));
}

TEST(CustomerTest, PagesOfCustomers) {
  const auto arguments = words("CUSTOMER LIST MATCH a* CURSOR 7 COUNT 9");  // parsed has views of them
  const auto parsed = parse_customer_list(arguments);
  ASSERT_TRUE(parsed) << parsed.error();
  EXPECT_EQ(parsed->match, "a*");
  EXPECT_EQ(parsed->cursor, 7U);
  EXPECT_EQ(parsed->count, 9U);
  EXPECT_FALSE(parse_customer_list(words("CUSTOMER LIST COUNT 0")));
  EXPECT_FALSE(parse_customer_list(words("CUSTOMER LIST MATCH " + std::string(257, '*'))));
}

}  // namespace
}  // namespace locksley::proto
