// Names of inputs, and the paths that are made of them.

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "daemon/cli/names/passing_names.h"
#include "daemon/cli/names/path_check.h"
#include "daemon/cli/names/path_template.h"
#include "daemon/cli/names/result_files.h"
#include "tests/support/own_path.h"

namespace locksley::cli {
namespace {

using ::testing::HasSubstr;

std::string path(std::string_view text, std::string_view name, std::uint64_t index = 6) {
  const auto made = PathTemplate::parse(text).path(index, name);
  return made ? *made : "! " + made.error().message;
}

TEST(CliPathTemplateTest, ReplacesWhatGnuParallelReplaces) {
  for (const auto& [name, whole, no_extension, base, folders, neither] :
       {std::tuple("sub/dir/photo.tar.gz", "sub/dir/photo.tar.gz", "sub/dir/photo.tar", "photo.tar.gz",
                   "sub/dir", "photo.tar"),
        std::tuple("a", "a", "a", "a", ".", "a"),
        std::tuple("sub.dir/a", "sub.dir/a", "sub.dir/a", "a", "sub.dir", "a"),
        std::tuple("/a.b", "/a.b", "/a", "a.b", "/", "a"),
        std::tuple("d//x.y", "d//x.y", "d//x", "x.y", "d", "x")}) {
    EXPECT_EQ(path("o/{}-", name), std::string("o/") + whole + "-");
    EXPECT_EQ(path("o/{.}-", name), std::string("o/") + no_extension + "-");
    EXPECT_EQ(path("o/{/}-", name), std::string("o/") + base + "-");
    EXPECT_EQ(path("o/{//}-", name), std::string("o/") + folders + "-");
    EXPECT_EQ(path("o/{/.}-", name), std::string("o/") + neither + "-");
  }
  EXPECT_EQ(path("o/{#}.{/.}.{#}.gz", "d/a.b"), "o/7.a.7.gz");
  EXPECT_EQ(path("{//}/small/{/}", "d/a.b"), "d/small/a.b");
  EXPECT_EQ(path("o/{x}/{/}", "d/a.b"), "o/{x}/a.b") << "other braces are text";
}

TEST(CliPathTemplateTest, ATextWithoutReplacementStringsIsAFolder) {
  EXPECT_EQ(path("out", "a"), "out/6");
  EXPECT_EQ(path("out/{x}", "a"), "out/{x}/6");
  EXPECT_FALSE(PathTemplate::parse("out").needs_names());
  EXPECT_FALSE(PathTemplate::parse("out/{#}.gz").needs_names());
  EXPECT_TRUE(PathTemplate::parse("out/{#}{/}").needs_names());
}

TEST(CliPathTemplateTest, TheFolderIsTheTextBeforeTheFirstReplacement) {
  EXPECT_EQ(PathTemplate::parse("out").folder(), "out");
  EXPECT_EQ(PathTemplate::parse("a/b/c-{/}/d").folder(), "a/b/");
  EXPECT_EQ(PathTemplate::parse("/{/}").folder(), "/");
  EXPECT_EQ(PathTemplate::parse("c-{}").folder(), "");
  EXPECT_EQ(PathTemplate::parse("{}.gz").folder(), "");
}

TEST(CliPathTemplateTest, NoNameLeadsOutOfTheFolder) {
  for (const auto& [text, name] :
       {std::pair("o/{}", "../x"), std::pair("o/{}", "a/../../x"), std::pair("o/{//}/y", "../x"),
        std::pair("o/{/}/y", "a/.."), std::pair("{/}/y", ".."), std::pair("x/.{/}/y", "."),
        std::pair("x/.{/.}./y", ".y"), std::pair("o-{}", "/../x"), std::pair("{#}/{}", "../x")}) {
    EXPECT_THAT(path(text, name), HasSubstr("by a '..' in its path")) << text << " " << name;
  }
  // What the user writes, and the folders of inputs, are the user's.
  EXPECT_EQ(path("../o/{/}", "../x"), "../o/x");
  EXPECT_EQ(path("{}.gz", "../x"), "../x.gz");
  EXPECT_EQ(path("{//}/o/{/}", "../x"), "../o/x");
  EXPECT_EQ(path("o/{}", "/x"), "o//x");
  EXPECT_EQ(path("o/{}", "..x/y.."), "o/..x/y..");
}

TEST(CliPathTemplateTest, APathNamesAFile) {
  for (const auto& [text, name] :
       {std::pair("o/{}", "a/"), std::pair("o/{}", "a/."), std::pair("o/{.}", ".x"), std::pair("{}", "..")}) {
    EXPECT_THAT(path(text, name), HasSubstr("names no file")) << text << " " << name;
  }
  EXPECT_THAT(path("o/{}", std::string_view("a\0b", 3)), HasSubstr("NUL"));
}

std::string problem_of(std::string_view text, const std::vector<std::string>& names,
                       NamesAre names_are = NamesAre::kFiles) {
  const auto checked = check_paths(
      PathTemplate::parse(text), names.size(),
      [&](std::uint64_t index) { return std::optional(names.at(index)); }, names_are);
  return checked ? "" : checked.error().message;
}

TEST(CliPathCheckTest, TwoOutputsOfOnePathAreNamed) {
  EXPECT_EQ(problem_of("o/{/}.gz", {"a/x", "a/y", "b/z"}), "");
  EXPECT_EQ(problem_of("o/{/}.gz", {"a/x", "a/y", "b/x"}),
            "--results: the outputs of 'a/x' and 'b/x' would both be written to o/x.gz; {} and {#} tell them "
            "apart");
  EXPECT_EQ(problem_of("o/{#}-{/}.gz", {"a/x", "b/x"}), "");
  EXPECT_THAT(problem_of("o/{#}{/}", {"1x", "b", "", "", "", "", "", "", "", "", "x"}),
              HasSubstr("'1x' and 'x'"));
  EXPECT_THAT(problem_of("{}.gz", {"a//b/./c", "a/b/c"}), HasSubstr("would both be written"));
  EXPECT_THAT(problem_of("{}.gz", {std::filesystem::current_path().string() + "/d/../c", "c"}),
              HasSubstr("would both be written"));
  EXPECT_THAT(problem_of("o/{.}", {"a.x", "a.y"}, NamesAre::kText), HasSubstr("'a.x' and 'a.y'"));
}

TEST(CliPathCheckTest, NoOutputIsWrittenOverAnInput) {
  EXPECT_EQ(problem_of("{}", {"a"}), "--results: the output of 'a' would be written over the input 'a'");
  EXPECT_EQ(problem_of("{}.gz", {"a.gz", "a"}),
            "--results: the output of 'a' would be written over the input 'a.gz'");
  EXPECT_EQ(problem_of("{}.gz", {"a.gz", "a"}, NamesAre::kText), "") << "payloads that are no files";
}

TEST(CliPathCheckTest, NoOutputIsTheFolderOfAnother) {
  EXPECT_THAT(problem_of("o/{.}", {"a.txt", "b", "a/b.txt", "a/c.txt"}),
              ::testing::AllOf(HasSubstr("/o/a would be the output of 'a.txt'"),
                               HasSubstr("the folder of that of 'a/b.txt'")));
  EXPECT_THAT(problem_of("o/{.}", {"a/b/c/d.txt", "x/y", "a/b.txt"}),
              HasSubstr("/o/a/b would be the output of 'a/b.txt'"));
  EXPECT_EQ(problem_of("o/{.}", {"a.txt", "ab/c.txt", "b/a.txt"}), "");
}

TEST(CliPathCheckTest, ANameWithoutAPathIsAProblem) {
  EXPECT_THAT(problem_of("o/{}", {"a", "../b"}), HasSubstr("'../b'"));
}

TEST(CliPassingNamesTest, EachNameIsTakenOnceAndFreedInBlocks) {
  PassingNames names;
  EXPECT_FALSE(names.take(0));
  for (int i = 0; i < 5000; ++i) names.add("name " + std::to_string(i));
  EXPECT_EQ(names.held_blocks(), 5U);
  EXPECT_EQ(names.take(4999), "name 4999");
  for (std::uint64_t i = 1024; i < 2048; ++i) ASSERT_EQ(names.take(i), "name " + std::to_string(i));
  EXPECT_EQ(names.held_blocks(), 4U);
  EXPECT_FALSE(names.take(1500)) << "its block is freed";
  for (std::uint64_t i = 1024; i > 0; --i) ASSERT_EQ(names.take(i - 1), "name " + std::to_string(i - 1));
  EXPECT_EQ(names.held_blocks(), 3U);
  EXPECT_EQ(names.take(2048), "name 2048");
  EXPECT_FALSE(names.take(5000));
  EXPECT_FALSE(names.take(UINT64_MAX));
  names.add("");
  EXPECT_EQ(names.take(5000), "");
}

TEST(CliPassingNamesTest, AfterAFullBlockThatWasFreedTheNextBegins) {
  PassingNames names;
  for (std::uint64_t i = 0; i < 3000; ++i) {
    names.add(std::to_string(i));
    ASSERT_EQ(names.take(i), std::to_string(i));
    ASSERT_LE(names.held_blocks(), 1U);
  }
}

std::string content_of(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

TEST(CliResultFilesTest, FoldersAreMadeAndFilesReplaced) {
  const testing::OwnPath folder("results");
  const std::filesystem::path root = folder.text();
  ResultFiles files(PathTemplate::parse((root / "a/b/{}").string()));
  ASSERT_TRUE(files.begin());
  EXPECT_TRUE(std::filesystem::is_directory(root / "a/b"));
  EXPECT_EQ(files.write(0, "c/d", "long"), (root / "a/b/c/d").string());
  EXPECT_EQ(files.write(1, "e", "other"), (root / "a/b/e").string());
  ASSERT_TRUE(files.write(0, "c/d", "new"));
  EXPECT_EQ(content_of(root / "a/b/c/d"), "new");
  EXPECT_EQ(content_of(root / "a/b/e"), "other");
  const auto failed = files.write(2, "e/f", "x");
  ASSERT_FALSE(failed);
  EXPECT_THAT(failed.error().message, HasSubstr("a/b/e"));
}

}  // namespace
}  // namespace locksley::cli
