// Promise: after however many tokens an answer is cut, its stream, put together as a client does
// it, is the whole answer, in OpenAI's shape and in Anthropic's.
#include "server/written.h"

namespace sluice::server {
namespace {

TEST(AnswerWriters, StreamWhatTheWholeHasWhereverItIsCut) {
  for (const auto& stops : {std::vector<std::string>{}, {"END"}, {"ZZ", "D of", "e END"}}) {
    std::vector<FormCase> forms = all_forms(stops);
    if (!stops.empty()) forms.erase(forms.begin() + 1, forms.end());  // they end the text of any
    for (const FormCase& each : forms) {
      SCOPED_TRACE(each.name);
      const text::Tokenizer& words = *each.tokenizer;
      const ServedModel model = served(words);
      const Ids ids = each.ids();
      for (std::size_t count = 0; count <= ids.size(); ++count) {
        const Written openai = write(*openai_writer(model), words, each.form, ids, count);
        EXPECT_EQ(joined_chat(openai.events), whole_chat(openai.whole)) << count;
        const Written anthropic = write(*anthropic_writer(model), words, each.form, ids, count);
        const TestJson joined = joined_messages(anthropic.events);
        EXPECT_EQ(joined["stop"], anthropic.whole["stop_reason"]) << count;
        EXPECT_EQ(joined["by"], anthropic.whole["stop_sequence"]) << count;
        EXPECT_EQ(joined["content"], anthropic.whole["content"]) << count;
      }
    }
  }
}

// However a model's format writes it, a client sees the same answer.
TEST(AnswerWriters, TheSameAnswerInAllFormatsIsTheSameToClients) {
  const std::vector<FormCase> all = all_forms();
  const auto in_openai = [](const FormCase& each) {
    const ServedModel model = served(*each.tokenizer);
    const Ids ids = each.ids();
    return whole_chat(
        write(*openai_writer(model), *each.tokenizer, each.form, ids, ids.size()).whole);
  };
  const auto in_anthropic = [](const FormCase& each) {
    const ServedModel model = served(*each.tokenizer);
    const Ids ids = each.ids();
    return write(*anthropic_writer(model), *each.tokenizer, each.form, ids, ids.size()).whole;
  };
  EXPECT_EQ(in_openai(all[0])["reasoning"], "First, w\u00e4gen \U0001F642.");
  for (const FormCase& each : all) {
    EXPECT_EQ(in_openai(each), in_openai(all[0])) << each.name;
    EXPECT_EQ(in_anthropic(each), in_anthropic(all[0])) << each.name;
  }
}

// No number of a client's is beyond a model that writes digit after digit.
TEST(AnswerWriters, KeepTheDigitsOfLongNumbers) {
  const std::string arguments =
      "{\"n\":[-123456789012345678901234567890,1],\"x\":{\"y\":98765432109876543210}}";
  WholeChoice choice;
  choice.blocks.push_back({AnswerBlock::Kind::call, arguments, "f\xff", "toolu_1"});
  const ServedModel model = served();
  const std::string whole = anthropic_writer(model)->whole_line({choice}, {});
  EXPECT_NE(whole.find("\"name\":\"f\uFFFD\",\"input\":" + arguments + "}"), std::string::npos)
      << whole;
}

}  // namespace
}  // namespace sluice::server
