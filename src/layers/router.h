// Which experts a token goes to, and with what weights.
// Sources: Switch (2101.03961), Mixtral (2401.04088), DeepSeek-V2 (2405.04434) and V3 (2412.19437), gpt-oss.
#pragma once

#include <cstdint>
#include <span>

namespace lithe::layers {

/// What the router's logits become before experts are chosen.
enum class RouterScore : std::uint8_t {
  softmax,            // over all experts
  sigmoid,            // each on its own
  softmax_of_chosen,  // the largest logits are chosen, the softmax is taken over those alone
};

struct RouterRule {
  int experts = 0, used = 0;
  RouterScore score = RouterScore::softmax;
  bool normalise = false;           // weights of the chosen experts are divided by their sum
  float scale = 1;                  // on the weights
  int groups = 1, groups_used = 1;  // experts are chosen from the best groups of neighbours alone
  int group_best = 1;               // a group is as good as the sum of so many of its best

  bool operator==(const RouterRule&) const = default;
};

struct ExpertChoice {
  std::int32_t expert = 0;
  float weight = 0;
};

/// chosen: [rule.used], the best first; of equals the lowest index. logits: [experts]. bias: [experts], added for the choice
/// alone, or empty. A logit that is not finite makes every weight NaN: the fault stays visible.
void choose_experts(const RouterRule& rule, std::span<const float> logits, std::span<const float> bias,
                    std::span<ExpertChoice> chosen);

}  // namespace lithe::layers
