#include "model/gqa_metadata.h"

namespace sluice::model {

void read_gqa(MetadataReader& reader, const store::Checkpoint& checkpoint, std::size_t hidden,
              GqaConfig& attention) {
  attention.heads = reader.count("attention.head_count", 1, 4096);
  attention.kv_heads = reader.count("attention.head_count_kv", 1, 4096, attention.heads);
  attention.dim = reader.count("attention.key_length", 1, 4096, hidden / attention.heads);
  if (reader.count("attention.value_length", 1, 4096, attention.dim) != attention.dim) {
    reader.fault("attention.value_length", "must equal attention.key_length");
  }
  attention.bias = checkpoint.find("blk.0.attn_q.bias").has_value();
  attention.output_bias = checkpoint.find("blk.0.attn_output.bias").has_value();
  attention.head_norm = checkpoint.find("blk.0.attn_q_norm.weight").has_value();
}

}  // namespace sluice::model
