#include "driver/reply_reader.h"

#include <gtest/gtest.h>

namespace weir::driver {
namespace {

std::string event(const std::string& json) {
  return "data: " + json + "\n\n";
}
std::string text(const char* said, const char* more = "") {
  return event(std::string("{\"choices\":[{\"text\":\"") + said + "\",\"finish_reason\":null" + more + "}]}");
}

// Feeds the pieces one second apart.
RequestRecord read(const std::vector<std::string>& pieces, int status = 200, bool events = true,
                   std::int64_t asked = 4) {
  RequestRecord record;
  record.asked_output_tokens = asked;
  ReplyReader reader(record, status, events);
  double now_s = 1;
  for (const auto& piece : pieces) {
    if (!reader.take(piece, now_s)) return record;
    now_s += 1;
  }
  reader.end(now_s);
  return record;
}

TEST(ReplyReader, counts_tokens_by_usage_and_not_by_chunks) {
  // Three chunks of 1, 3 and 2 tokens; one of them has no text (half a character).
  const auto r =
      read({event(R"({"choices":[{"text":"a"}],"usage":{"completion_tokens":1,"prompt_tokens":9}})"),
            event(R"({"choices":[{"text":""}],"usage":{"completion_tokens":4}})"),
            event(R"({"choices":[{"text":"b"}],"usage":{"completion_tokens":6}})"),
            event(R"({"choices":[],"usage":{"completion_tokens":6,"prompt_tokens_details":{"cached_tokens":8}}})"),
            "data: [DONE]\n\n"});
  EXPECT_TRUE(r.ok()) << r.error;
  EXPECT_EQ(r.output_tokens, 6);
  EXPECT_EQ(r.counted_by, CountedBy::kUsage);
  EXPECT_EQ(r.prompt_tokens, 9);
  EXPECT_EQ(r.cached_tokens, 8);
  ASSERT_EQ(r.arrivals.size(), 3u);
  EXPECT_EQ(r.arrivals[1].tokens, 3);
  EXPECT_EQ(r.first_token_s, 1);
  EXPECT_EQ(r.last_token_s, 3);
  EXPECT_EQ(r.tpot_s(), 2 / 5.0);
}

TEST(ReplyReader, shares_the_last_usage_over_chunks_where_there_is_no_other_count) {
  const auto r =
      read({text("ab"), text("cd"), event(R"({"choices":[],"usage":{"completion_tokens":8}})"), "data: [DONE]\n\n"});
  EXPECT_EQ(r.output_tokens, 8);
  ASSERT_EQ(r.arrivals.size(), 2u);
  EXPECT_EQ(r.arrivals[0].tokens, 4);
}

TEST(ReplyReader, counts_ids_where_usage_is_missing_and_chunks_at_last) {
  const auto ids = read({text("ab", ",\"token_ids\":[5,6]"), text("", ",\"token_ids\":[7]"), "data: [DONE]\n\n"});
  EXPECT_EQ(ids.output_tokens, 3);
  EXPECT_EQ(ids.counted_by, CountedBy::kIds);
  const auto chunks = read({text("ab"), text(""), text("c"), "data: [DONE]\n\n"});
  EXPECT_EQ(chunks.output_tokens, 2);
  EXPECT_EQ(chunks.counted_by, CountedBy::kChunks);
}

TEST(ReplyReader, takes_events_cut_anywhere_with_any_line_ends) {
  const std::string whole =
      ": hello\r\nevent: x\r\n" + text("a") + "data:{\"choices\":[{\"text\":\"b\"}]}\r\n\r\ndata: [DONE]\n\n";
  for (std::size_t cut = 0; cut <= whole.size(); ++cut) {
    const auto r = read({whole.substr(0, cut), whole.substr(cut)});
    ASSERT_TRUE(r.ok()) << cut << ": " << r.error;
    ASSERT_EQ(r.output_tokens, 2) << cut;
  }
}

TEST(ReplyReader, events_of_one_read_came_together) {
  const auto r = read({text("a"), text("b") + text("c"), "data: [DONE]\n\n"});
  ASSERT_EQ(r.arrivals.size(), 2u);
  EXPECT_EQ(r.arrivals[1].tokens, 2);
}

TEST(ReplyReader, says_why_an_answer_is_none) {
  EXPECT_EQ(read({R"({"error":{"message":"the queue is full"}})"}, 429, false).error, "HTTP 429: the queue is full");
  EXPECT_EQ(read({"oops\x1b[2J"}, 500, false).error, "HTTP 500: oops\\x1b[2J");
  EXPECT_EQ(read({}, 503, false).error, "HTTP 503");
  EXPECT_EQ(read({text("a"), event(R"({"error":{"message":"broken"}})")}).error, "the server: broken");
  EXPECT_NE(read({text("a"), text("b")}).error.find("ended early"), std::string::npos);
  EXPECT_NE(read({"data: {]\n\n"}).error.find("no JSON"), std::string::npos);
  EXPECT_NE(read({"data: [DONE]\n\n"}).error.find("no tokens"), std::string::npos);
  EXPECT_NE(read({"[]"}, 200, false).error.find("no JSON object"), std::string::npos);
}

TEST(ReplyReader, takes_whole_replies) {
  const auto r = read(
      {R"({"choices":[{"text":"ab","fin)", R"(ish_reason":"length"}],"usage":{"completion_tokens":4}})"}, 200, false);
  EXPECT_TRUE(r.ok()) << r.error;
  EXPECT_EQ(r.output_tokens, 4);
  EXPECT_EQ(r.first_token_s, 3);
}

TEST(ReplyReader, does_not_grow_with_what_a_server_sends) {
  const std::string much(1 << 20, 'x');
  EXPECT_NE(read(std::vector<std::string>(6, much)).error.find("4 MiB"), std::string::npos);
  EXPECT_NE(read(std::vector<std::string>(18, much), 200, false).error.find("16 MiB"), std::string::npos);
}

TEST(ReplyReader, strange_fields_are_no_counts) {
  for (const char* usage : {"-5", "1e300", "\"7\"", "null", "[]", "99999999999999"}) {
    const auto r =
        read({event(std::string(R"({"choices":[{"text":"a","finish_reason":"length"}],"usage":{"completion_tokens":)") +
                    usage + "}}"),
              "data: [DONE]\n\n"});
    EXPECT_LE(r.output_tokens, 1) << usage;
  }
  EXPECT_TRUE(
      read({event(R"({"choices":[1,{"text":5},{"text":"a","token_ids":3}],"usage":7})"), "data: [DONE]\n\n"}).ok());
}

}  // namespace
}  // namespace weir::driver
