// Byte-pair encoding by a list of merges, as tokenizer.json and GGUF have it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "text/unknown_characters.h"
#include "text/vocabulary.h"

namespace sluice::text {

/// Which two neighbouring tokens become which one, and how early.
class MergeTable {
 public:
  struct Merge {
    std::uint32_t rank;  ///< the lower goes first
    std::int32_t id;     ///< of the token that the two become
  };

  /// Takes room for so many merges.
  void reserve(std::size_t merges);
  /// The next rank is that of this pair. A pair that is there already keeps its rank; false then.
  bool add(std::int32_t left, std::int32_t right, std::int32_t id);
  std::optional<Merge> find(std::int32_t left, std::int32_t right) const;
  std::size_t size() const { return size_; }
  std::uint64_t memory_bytes() const { return slots_.capacity() * sizeof(Slot); }

 private:
  struct Slot {
    std::int32_t left = -1;  // -1: free
    std::int32_t right = 0;
    Merge merge{};
  };
  std::size_t slot_of(std::int32_t left, std::int32_t right) const;

  std::vector<Slot> slots_;  // a power of two, at most two thirds full
  std::size_t size_ = 0;
};

/// Encodes pieces one after another, keeping its buffers. Time O(n log n) in the piece's bytes.
class MergeEncoder {
 public:
  /// All must outlive the encoder. Of characters if `unknown` says what to do with those that are
  /// no tokens (it must cover them), else of bytes. With `whole_pieces`, a piece that is a token is
  /// this token, whatever the merges make of it.
  MergeEncoder(const Vocabulary& vocabulary, const MergeTable& merges, bool whole_pieces,
               const UnknownCharacters* unknown)
      : vocabulary_(vocabulary), merges_(merges), whole_pieces_(whole_pieces), unknown_(unknown) {}

  /// Appends the ids of `piece`: its single bytes or characters, of which the adjacent pair with
  /// the lowest rank, the leftmost among equals, is merged until none is left.
  void encode(std::string_view piece, std::vector<std::int32_t>& ids);

 private:
  struct Part {
    std::uint32_t next;      // index of the part behind it
    std::uint32_t previous;  // index of the part before it
    std::int32_t id;         // -1: merged into the one before it
  };
  struct Candidate {
    std::uint32_t rank;
    std::uint32_t part;  // the left one of the pair
    std::int32_t left;   // the ids as they were when the pair was found
    std::int32_t right;
    std::int32_t id;
    /// The order of a heap whose top goes first.
    bool operator<(const Candidate& other) const {
      return rank != other.rank ? rank > other.rank : part > other.part;
    }
  };
  void part_bytes(std::string_view piece);
  void part_characters(std::string_view piece);
  void add_part(std::int32_t id);
  void offer(std::uint32_t part);
  void merge_all();

  const Vocabulary& vocabulary_;
  const MergeTable& merges_;
  bool whole_pieces_;
  const UnknownCharacters* unknown_;
  std::vector<Part> parts_;  // of one byte or character each, in the beginning
  std::vector<Candidate> heap_;
};

}  // namespace sluice::text
