#pragma once
// Nothing of this file is used. See algorithm.h.
