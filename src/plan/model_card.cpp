#include "plan/model_card.h"

namespace weir::plan {

double ModelCard::parameters() const {
  double total = 0;
  for (const CardTensor& tensor : tensors) total += static_cast<double>(tensor.elements());
  return total;
}

}  // namespace weir::plan
