// How a kernel table comes together: each area of kernels fills its own pointers for one ISA.
#pragma once

#include "kernels/kernel_table.h"

namespace lithe::kernels {

void fill_matmul(Isa isa, KernelTable& table);
void fill_rows(Isa isa, KernelTable& table);
void fill_attention(Isa isa, KernelTable& table);

/// The scalar loops of Isa::reference, one function per area.
void fill_matmul_reference(KernelTable& table);
void fill_rows_reference(KernelTable& table);
void fill_attention_reference(KernelTable& table);

}  // namespace lithe::kernels
