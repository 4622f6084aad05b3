// What the encoders have in common, as dense.h for decoders.
#pragma once

#include <string_view>

#include "base/status.h"
#include "models/arch_spec.h"
#include "models/hf/config.h"
#include "models/parameters.h"
#include "models/weight_table.h"

namespace lithe::models {

/// Not causal; layer norms; how rows are pooled, and the labels of a classification head, as the file states them. `head`:
/// what the head reads where the file does not say.
Status describe_encoder(const Parameters& parameters, Pooling head, ArchSpec& spec);
/// BERT's norms: after each branch has been added.
void describe_after_add(ArchSpec& spec);

/// tokenizer.ggml.token_type_count, type_vocab_size: 2 where nothing is said.
Status describe_token_types(const Parameters& parameters, ArchSpec& spec);
Status translate_token_types(HfConfig& config);

/// Segments and the norm of the embedding, by their names in checkpoints.
void add_embedding_parts(WeightTable& table, std::string_view hf_types, std::string_view hf_norm);
/// Norms after each branch, in place of those before it, by their names in a checkpoint.
void add_after_norms(WeightTable& table, std::string_view hf_attention, std::string_view hf_ffn);
/// Of a model that has labels: a matrix before theirs and a norm (empty: none), and their own.
void add_classifier(WeightTable& table, const ArchSpec& spec, std::string_view hf_dense,
                    std::string_view hf_norm, std::string_view hf_out);

bool is_classifier(const HfConfig& config);
/// attention.causal, and for a sequence classifier the labels and pooling_type "rank". Exporting, the class is
/// `stem`Model or `stem`ForSequenceClassification.
Status translate_encoder(HfConfig& config, std::string_view stem, std::string_view model_type);

}  // namespace lithe::models
