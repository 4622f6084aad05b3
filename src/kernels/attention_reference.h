// Storing and loading of keys and values as plain scalar loops: the definition that every table must match.
#pragma once

#include "kernels/attention.h"

namespace lithe::kernels {

void reference_store(const KvView& kv, const float* k, std::int64_t k_stride, const float* v,
                     std::int64_t v_stride, std::int64_t position, std::int64_t count);

/// One stored key or value, exactly. out: [key_dim] or [value_dim].
void load_key(const KvView& kv, int kv_head, std::int64_t position, float* out);
void load_value(const KvView& kv, int kv_head, std::int64_t position, float* out);

}  // namespace lithe::kernels
