// Package history remembers the last turns: what caused each, what it computed and published, which proxies were sent it, when they
// acknowledged it, and what they refused. It remembers in which turn each object that users wrote came into force. kept.go keeps the turns
// on disk for the next process. It only listens: to the loop before and after a turn's rows are published, and to streams. It must not know
// what rows mean.
package history
