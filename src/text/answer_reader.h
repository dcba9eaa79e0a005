// What the formats of answers have in common: markers, headers, and text between them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "text/answer_builder.h"
#include "text/tokenizer.h"

namespace sluice::text {

/// Reads the markers of one format. A header is the text between two markers that says what
/// follows.
class AnswerReader {
 public:
  /// The tokenizer must outlive the reader.
  AnswerReader(const Tokenizer& tokenizer, AnswerBuilder::Place place)
      : tokenizer_(&tokenizer), answer_(place, tokenizer.strips_first_space()) {}
  virtual ~AnswerReader() = default;
  AnswerReader(const AnswerReader&) = delete;
  AnswerReader& operator=(const AnswerReader&) = delete;

  void push(std::int32_t id) {
    if (is_marker(id)) return on_marker(id);
    if (!in_header_) return answer_.on_bytes(tokenizer_->bytes_of(id));
    header_ += tokenizer_->bytes_of(id);
    on_header_bytes();
  }
  /// See AnswerParser::finish().
  void finish(bool cut) {
    if (cut) drop_header();
    end_header(false);
    if (!cut) on_end();
    answer_.flush();
  }

  bool in_header() const { return in_header_; }
  AnswerBuilder& answer() { return answer_; }
  const AnswerBuilder& answer() const { return answer_; }

 protected:
  using Place = AnswerBuilder::Place;

  virtual bool is_marker(std::int32_t id) const { return tokenizer_->is_special(id); }
  virtual void on_marker(std::int32_t id) = 0;
  /// Acts on a header. It is whole if its end marker came, and not just another marker or the end
  /// of the answer.
  virtual void on_header(std::string_view header, bool whole) = 0;
  /// After more of a header.
  virtual void on_header_bytes() {}
  /// The ids end, and no more would have come.
  virtual void on_end() {}

  void begin_header() {
    in_header_ = true;
    header_.clear();
  }
  void drop_header() {
    in_header_ = false;
    header_.clear();
  }
  /// on_header(), if one is being read.
  void end_header(bool whole) {
    if (!std::exchange(in_header_, false)) return;
    on_header(whole_utf8(std::exchange(header_, {})), whole);
  }
  const std::string& header() const { return header_; }
  std::int32_t id_of(std::string_view name) const {
    return tokenizer_->special_id(name).value_or(-1);
  }

 private:
  const Tokenizer* tokenizer_;
  AnswerBuilder answer_;
  bool in_header_ = false;
  std::string header_;  // its bytes so far
};

/// K3's sections. `thinking` as in AnswerParser.
std::unique_ptr<AnswerReader> read_sections(const Tokenizer& tokenizer, bool thinking);
/// <think> and K2's markers of calls, which most formats share.
std::unique_ptr<AnswerReader> read_thoughts(const Tokenizer& tokenizer, bool thinking);
/// The channels of gpt-oss.
std::unique_ptr<AnswerReader> read_channels(const Tokenizer& tokenizer, bool thinking);

}  // namespace sluice::text
