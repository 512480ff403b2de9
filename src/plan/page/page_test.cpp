#include "plan/page/page.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "plan/model_card.h"
#include "plan/page/page_request.h"

namespace weir::plan {
namespace {

using Json = nlohmann::json;

Json question() {
  return {{"model", "Llama-3.1-8B"}, {"hardware", "H100-SXM"}, {"devices", 2}, {"weights", {"fp8"}}, {"kv_bits", {8}}};
}

PageAnswer ask(const Json& json) {
  return answer_page("POST", "/api/parallel", json.dump());
}

TEST(Page, OffersOnlyWhatItTakes) {
  const auto known = Json::parse(answer_page("GET", "/api/known", "").body);
  ASSERT_GT(known["models"].size(), 10u);
  ASSERT_GT(known["hardware"].size(), 10u);
  for (const auto& name : known["weights"]) EXPECT_TRUE(parse_weight_types(name.get<std::string>())) << name;
  for (const auto& name : known["models"]) {
    auto json = question();
    json["model"] = name;
    EXPECT_TRUE(read_page_request(json.dump())) << name;
  }
  for (const auto& device : known["hardware"]) {
    auto json = question();
    json["hardware"] = device["name"];
    EXPECT_TRUE(read_page_request(json.dump())) << device;
  }
}

TEST(Page, KnowsDevicesByTheNamesOfTheCommandLineAndNoneByHand) {
  auto json = question();
  for (const char* name : {"h100", "H100-80GB", "h100_sxm"}) {
    json["hardware"] = name;
    const auto request = read_page_request(json.dump());
    ASSERT_TRUE(request) << name;
    EXPECT_EQ(request->hardware.name, "H100-SXM");
  }
  for (const char* name : {"H100,mem_gb=1000", "mine,bf16_dense_tflops=1,mem_gb=1,mem_bw_gbs=1", "h1000"}) {
    json["hardware"] = name;
    EXPECT_EQ(ask(json).status, 404) << name;
  }
}

TEST(Page, AnswersAPlan) {
  const auto answer = ask(question());
  ASSERT_EQ(answer.status, 200) << answer.body;
  const auto json = Json::parse(answer.body);
  EXPECT_GT(json["front"].size(), 3u);
  EXPECT_EQ(ask(question()).body, answer.body);
}

TEST(Page, TakesNoPathAndSaysNoMoreThanTheField) {
  for (const char* model : {"/etc/passwd", ".", "..", "./src", "Llama-3.1-8B/", "Llama-3.1-8B\n"}) {
    auto json = question();
    json["model"] = model;
    const auto answer = ask(json);
    EXPECT_EQ(answer.status, 404) << model;
    EXPECT_EQ(Json::parse(answer.body)["error"]["field"], "model");
  }
}

TEST(Page, EveryFieldOfAWrongTypeIsRefusedByName) {
  const auto good = question();
  for (const auto& [field, value] : good.items()) {
    for (const Json& wrong :
         {Json("x"), Json(-1), Json(1e308), Json(Json::object()), Json(Json::array({Json::array()}))}) {
      auto json = good;
      json[field] = wrong;
      const auto answer = ask(json);
      EXPECT_TRUE(answer.status == 400 || answer.status == 404) << field << wrong;
      EXPECT_NE(answer.body.find(field), std::string::npos) << answer.body;
    }
  }
}

TEST(Page, BodiesThatAreTooLongOrTooDeepAreNotParsed) {
  EXPECT_EQ(answer_page("POST", "/api/parallel", std::string(kMostPageBody + 1, ' ')).status, 413);
  EXPECT_EQ(answer_page("POST", "/api/parallel", std::string(10000, '[')).status, 400);
  EXPECT_EQ(answer_page("POST", "/api/parallel", "").status, 400);
}

TEST(Page, EveryByteOfAQuestionMayBeWrong) {
  const std::string good = question().dump();
  for (std::size_t i = 0; i < good.size(); ++i) {
    for (const char c : {'\0', '"', '{', '9', '\xff', '\\'}) {
      std::string bad = good;
      bad[i] = c;
      (void)read_page_request(bad);  // any answer, no end
    }
  }
}

}  // namespace
}  // namespace weir::plan
