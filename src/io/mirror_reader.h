// Reading files that lie on several drives more than once.
#pragma once

#include <chrono>
#include <filesystem>
#include <memory>
#include <vector>

#include "io/mirror_queue.h"
#include "io/reader.h"

namespace sluice::io {

/// A file and where it lies again, byte for byte the same.
struct Mirrored {
  std::filesystem::path original;
  std::vector<std::filesystem::path> copies;
};

/// Shares the reads of each mirrored file among its copies; other files are read where they are. An
/// extent is read in parts, each from the copy that is expected to give it first (mirror_queue.h).
///
/// A part that one drive does not give is read from the next copy. The first failure of a drive is
/// reported, and so is the moment from which it is left alone. When no copy gives a part, its
/// request ends with ErrorKind::drive and says what each of them answered.
///
/// A drive that stands still for longer than `patience` gets nothing more that another copy may
/// give. What it was asked for before waits for it: its late bytes would come into a room that is
/// somebody else's by then.
///
/// open() takes the originals' paths. Copies that cannot be opened are reported and left out.
std::unique_ptr<Reader> make_mirror_reader(
    std::unique_ptr<Reader> inner, std::vector<Mirrored> files,
    std::chrono::milliseconds patience = MirrorQueue::kPatience);

}  // namespace sluice::io
