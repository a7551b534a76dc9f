// Package way holds the answer of the interpreter, and the machinery that finds it: each way that a request may take is followed from the
// beginning, with other choices. Explore calls the same function for each way; the function calls Choose wherever the way may split, and
// End where it ends.
//
// A condition has three results (Tri): yes, no, and unsure, if the interpreter cannot know it. Decide follows both ways of an unsure one.
//
// All input may be hostile: work, depth and ways are bounded, and an invalid message ends the interpretation with an error.
package way
