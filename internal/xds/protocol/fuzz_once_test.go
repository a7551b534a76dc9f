package protocol

import (
	"fmt"
	"testing"
)

// TestHistoriesThatFailed plays histories that once ended, or went, wrong.
func TestHistoriesThatFailed(t *testing.T) {
	for _, h := range []struct {
		delta, refusing bool
		seed            uint64
		size            int
		what            string
	}{
		{false, true, 100757, 900, "a refused load assignment had been awaited: the client waits on"},
		{true, true, 112632, 900, "the same, incrementally"},
		{true, true, 113155, 900, "the same, with a newer version in the queue"},
		{false, true, 20173, 400, "a full state changed a cluster that was not sent for itself, and its load assignment did not follow"},
		{
			true, true, 110581, 900,
			"a route configuration was given up and asked for again while it was on the way: its virtual hosts did not follow",
		},
		{true, true, 118102, 900, "the same, refused: what the client had before went with the subscription"},
		{
			true, false, 150021, 900,
			"virtual hosts were reported as held, but their route configuration had come before they were subscribed to",
		},
		{true, true, 199265, 900, "a virtual host was to be removed, came back, and was not in force"},
		{true, true, 109397, 900, "a listener of a refused response was in force, and its cluster was removed"},
		{true, true, 129751, 900, "a refused listener had been waited for since before the removal that followed it"},
		{true, true, 115721, 900, "a cluster was queued for removal, came back, was used, and went"},
		{true, false, 402593, 900, "a route configuration was given up, asked for again and to be removed, while it was on the way"},
		{true, false, 210119, 900, "a route configuration's removal was on the way, its virtual hosts in force, and their clusters went"},
		{true, false, 235578, 900, "the same"},
		{true, true, 235578, 900, "the same, of a client that refuses"},
		{true, true, 261396, 900, "a route configuration was given up and asked for again while it was on the way, and its cluster went"},
		{true, false, 105959, 900, "a cluster was ACKed, sent anew behind its removal, and taken for one that the client keeps"},
		{
			true, true, 188765, 900,
			"a route configuration was sent again before it was refused: its virtual hosts, dropped meanwhile, did not follow",
		},
		{false, false, 114215, 900, "a route configuration of another server's came back"},
		{false, false, 186896, 900, "the first state was not yet ACKed, and nobody knows what the client had before"},
	} {
		t.Run(fmt.Sprintf("delta=%v,refusing=%v,%d", h.delta, h.refusing, h.seed), func(t *testing.T) {
			newPlay(t, h.delta, h.refusing, randomInput(h.seed, h.size)).run()
			if t.Failed() {
				t.Logf("once wrong here: %s", h.what)
			}
		})
	}
}
