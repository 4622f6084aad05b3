// What the encoders have in common, as dense.h for decoders.
#pragma once

#include <string_view>

#include "base/status.h"
#include "models/arch_spec.h"
#include "models/hf/config.h"
#include "models/parameters.h"
#include "models/weight_table.h"

namespace lithe::models {

/// Not causal; layer norms; how rows are pooled, segments, labels of a classification head, as the file states them.
Status describe_encoder(const Parameters& parameters, ArchSpec& spec);
/// BERT's norms: after each branch has been added.
void describe_after_add(ArchSpec& spec);

/// tokenizer.ggml.token_type_count, type_vocab_size: 2 where nothing is said.
Status describe_token_types(const Parameters& parameters, ArchSpec& spec);
Status import_token_types(HfConfig& config);

/// Segments and the norm of the embedding, by their names in checkpoints.
void add_embedding_parts(WeightTable& table, std::string_view hf_types, std::string_view hf_norm);
/// Norms after each branch, in place of those before it, by their names in a checkpoint.
void add_after_norms(WeightTable& table, std::string_view hf_attention, std::string_view hf_ffn);
/// Of a model that has labels. hf_dense: absent from models without a matrix before the labels'.
void add_classifier(WeightTable& table, const ArchSpec& spec, std::string_view hf_dense,
                    std::string_view hf_norm);

bool is_classifier(const HfConfig& config);
/// attention.causal, and for a sequence classifier the number of labels and pooling_type "rank".
Status translate_encoder(HfConfig& config);

}  // namespace lithe::models
