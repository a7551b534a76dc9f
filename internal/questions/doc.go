// Package questions answers questions about the running control plane one at a time, so that they leave processor time and the loop of
// turns to changes. Queue is its type: Ask waits for a question's place in the queue and answers it, and Between runs a piece of an answer
// between two turns. It knows no page.
package questions
