// Byte-pair encoding by rank (SPEC 9.4), or by score as SentencePiece has it.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "text/unknown_characters.h"
#include "text/vocabulary.h"

namespace sluice::text {

/// The tokens of a vocabulary with scores: which merge goes first.
struct ScoreRanks {
  /// From the scores by id: the highest has rank 0, equal scores have the same.
  static ScoreRanks of(std::span<const float> scores);

  std::vector<std::uint32_t> by_id;
};

/// Encodes pieces one after another, keeping its buffers. Time O(n log n) in the piece's bytes.
class BytePairEncoder {
 public:
  /// Of bytes, by rank: a token's id is its rank, and a piece that is a token is this token.
  /// The vocabulary must outlive the encoder.
  explicit BytePairEncoder(const Vocabulary& vocabulary) : vocabulary_(vocabulary) {}
  /// Of characters, by score. All must outlive the encoder; each character is a token, or covered
  /// by `unknown`.
  BytePairEncoder(const Vocabulary& vocabulary, const ScoreRanks& ranks,
                  const UnknownCharacters& unknown)
      : vocabulary_(vocabulary), ranks_(&ranks), unknown_(&unknown) {}

  /// Appends the ids of `piece`: its single bytes or characters, of which the adjacent pair that is
  /// a token of the lowest rank, the leftmost among equals, is merged until none is left.
  void encode(std::string_view piece, std::vector<std::int32_t>& ids);

 private:
  void part_all();
  void offer(std::uint32_t start);
  void merge_all();
  void write(std::vector<std::int32_t>& ids) const;

  // A part is a byte range of the piece, named by its start.
  struct Part {
    std::uint32_t next;      // start of the part behind it; 0: inside another part
    std::uint32_t previous;  // start of the part before it
    std::int32_t id;         // -1: a character that is no token
  };
  struct Candidate {
    std::uint32_t rank;
    std::uint32_t start;
    std::int32_t id;
    /// The order of a heap whose top goes first.
    bool operator<(const Candidate& other) const {
      return rank != other.rank ? rank > other.rank : start > other.start;
    }
  };

  const Vocabulary& vocabulary_;
  const ScoreRanks* ranks_ = nullptr;
  const UnknownCharacters* unknown_ = nullptr;
  std::string_view piece_;
  std::vector<Part> parts_;  // [bytes]
  std::vector<Candidate> heap_;
};

}  // namespace sluice::text
