package writeback

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"fairway/internal/app/reached"
	"fairway/internal/door"
	"fairway/internal/mesh/code"
	"fairway/internal/printable"
	"fairway/internal/writes/condition"
)

// live is the type of the condition that says whether all proxies have an object.
const live = "Live"

// The reasons of the condition, beside those of problems.
const (
	acknowledged    = "Acknowledged"
	notAcknowledged = "NotAcknowledged"
	warming         = "Warming"
)

const mostMessage = 1 << 10 // bytes

// waitingCondition says that the newest version of an object waits at the door.
func waitingCondition(w door.Waiting) condition.Condition {
	return condition.Condition{Type: live, Status: "False", Reason: code.Waiting, Message: printable.Text(fmt.Sprintf(
		"the new version waits for %s, until %s at the latest", strings.Join(w.For, ", "), w.Until.UTC().Format(time.RFC3339),
	), mostMessage)}
}

// liveCondition says how far a version of an object has come; zero: it is on its way.
func liveCondition(o reached.Outcome, c reached.Count) condition.Condition {
	out := condition.Condition{Type: live, Status: "False"}
	switch {
	case o == reached.Live:
		out.Status, out.Reason = "True", acknowledged
		if c.Silent > 0 {
			out.Message = fmt.Sprintf("acknowledged; warming unknown: %s", ofAll(c.Silent, c.Proxies, "has", "have")+
				" no agent that reports it")
		}
		return out
	case o == reached.Refused:
		out.Reason = code.Refused
		out.Message = wordsOf(c, "refuses it", "refuse it", "some proxies refuse it")
	case o == reached.Late && c.Without > 0 && c.Without == c.Warming:
		out.Reason = warming
		out.Message = wordsOf(c, "does not use it yet", "do not use it yet", "")
	case o == reached.Late:
		out.Reason = notAcknowledged
		out.Message = wordsOf(c, "lacks it", "lack it", "some proxies have not acknowledged it for a while")
	default:
		return condition.Condition{}
	}
	out.Message = printable.Text(out.Message+"; pilotctl wait shows how it is now", mostMessage)
	return out
}

// wordsOf describes the proxies that do not have an object: "1 of 214 proxies lacks it: web-7.shop since TIME, not acknowledged".
func wordsOf(c reached.Count, one, many, unknown string) string {
	if c.Without == 0 {
		return unknown
	}
	text := ofAll(c.Without, c.Proxies, one, many)
	if c.First == "" {
		return text
	}
	text += ": " + c.First
	if !c.Since.IsZero() {
		text += " since " + c.Since.UTC().Format(time.RFC3339)
	}
	if c.What != "" {
		text += ", " + c.What
	}
	return text
}

// ofAll counts proxies with their verb.
func ofAll(n, all int, one, many string) string {
	verb := many
	if n == 1 {
		verb = one
	}
	noun := "proxies"
	if all == 1 {
		noun = "proxy"
	}
	return strconv.Itoa(n) + " of " + strconv.Itoa(all) + " " + noun + " " + verb
}
