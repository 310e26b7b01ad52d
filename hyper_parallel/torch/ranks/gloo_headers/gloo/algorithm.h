#pragma once
// The torch wheel has ProcessGroupGloo.hpp but not the Gloo headers that it includes. These
// files declare, in our own words, the few names that it mentions, so that the class has its true
// size: all Gloo objects in it are held by pointers. Only processes.cpp sees them.
