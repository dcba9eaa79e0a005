// The index of a pack. The first byte says whether its checksum is made right before: else nearly
// every input would end there.
#include <cstdint>
#include <cstring>
#include <vector>

#include "base/check.h"
#include "store/checksum.h"
#include "store/pack.h"
#include "store/pack_index.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace sluice;
  using namespace sluice::store;
  if (size < 1) return 0;
  const auto* const from = reinterpret_cast<const std::byte*>(data);
  std::vector<std::byte> bytes(from + 1, from + size);
  if (data[0] != 0 && bytes.size() >= sizeof(std::uint64_t)) {
    const std::size_t body = bytes.size() - sizeof(std::uint64_t);
    const std::uint64_t hash = checksum_of(std::span(bytes).first(body));
    std::memcpy(bytes.data() + body, &hash, sizeof(hash));
  }
  FaultList faults;
  auto index = decode_pack_index(bytes, "fuzz", faults);
  SLUICE_CHECK(index.has_value() == faults.empty());
  if (!index) return 0;
  SLUICE_CHECK(encode_pack_index(*index) == bytes);
  TensorTable table;
  const bool sound = enter_pack_tensors(*index, "fuzz", table, faults);
  SLUICE_CHECK(sound == faults.empty());
  const std::size_t parts = index->folders.size();
  const std::uint64_t stream = stream_bytes(*index);
  const Pack pack(std::move(*index), std::vector<ShardFile>(parts));
  // In proportion to what was read, whatever that says.
  SLUICE_CHECK(pack.memory_bytes() + table.memory_bytes() <= (std::size_t{1} << 20) + 64 * size);
  std::uint64_t sum = 0;
  for (std::size_t part = 0; part < parts; ++part) {
    sum += pack.stripes().part_bytes(part, stream);
  }
  SLUICE_CHECK(sum == stream && pack.stream_bytes() == stream);
  for (std::uint32_t tensor = 0; tensor < table.size(); ++tensor) {
    const Tensor found = table.tensor(tensor);
    SLUICE_CHECK(found.offset + found.bytes <= stream);
    const auto units = pack.whole_units({found.offset, found.offset + found.bytes});
    SLUICE_CHECK(units.begin <= found.offset && units.end >= found.offset + found.bytes);
    SLUICE_CHECK(pack.rows_together(found.offset) > 0);
  }
  return 0;
}
