// What a lithe::Model holds.
#pragma once

#include <memory>

#include "engine/loaded_model.h"

namespace lithe {

struct Model::Impl {
  std::unique_ptr<engine::LoadedModel> loaded;
};

}  // namespace lithe
