package mesh

import (
	"iter"
	"math"
	"strconv"
	"strings"
	"time"
)

// ConnectionSettings holds the settings of ProxyConfig.connectionSettings. A field that is not set has the value of its profile. It is
// comparable; "" sets nothing. Fields iterates over it.
type ConnectionSettings string

// Fields yields each field that is set: its name in JSON and its value. A number is yielded as it is, a duration in milliseconds, an enum
// as its number, and a boolean as 0 or 1.
func (s ConnectionSettings) Fields() iter.Seq2[string, int64] {
	return func(yield func(string, int64) bool) {
		for word := range strings.SplitSeq(string(s), "+") {
			name, value, said := strings.Cut(word, "=")
			if n, err := strconv.ParseInt(value, 10, 64); said && err == nil && !yield(name, n) {
				return
			}
		}
	}
}

// Field returns the value of one field, and false if it is not set.
func (s ConnectionSettings) Field(name string) (n int64, said bool) {
	for field, n := range s.Fields() {
		if field == name {
			return n, true
		}
	}
	return 0, false
}

// connectionField is a field that is read.
type connectionField struct {
	name        string
	edge        int64 // the value of the profile EDGE; unsaid: none
	read        func(f proxyFields, name string, least, most int64) int64
	least, most int64
}

// unsaid is the value of a field that is not set.
const unsaid = -1

const (
	mostSaid     = math.MaxInt32
	mostDuration = 10 * 365 * 24 * 3600 * 1000 // milliseconds
	leastWindow  = 65535                       // of HTTP/2 (its RFC 9113, 6.9.2); Envoy refuses smaller ones
)

// The fields, in the order of mesh/v1alpha1/proxy.proto. Its listenerConnectionLimit and globalDownstreamConnectionLimit are values of
// Envoy's runtime, which its bootstrap has.
var connectionFields = [...]connectionField{
	{"listenerPerConnectionBufferLimitBytes", 32 << 10, proxyFields.whole, 1, mostSaid},
	{"clusterPerConnectionBufferLimitBytes", 32 << 10, proxyFields.whole, 1, mostSaid},
	{"httpIdleTimeout", 3600_000, proxyFields.duration, 0, mostDuration},
	{"httpMaxConnectionDuration", unsaid, proxyFields.duration, 1, mostDuration},
	{"httpDrainTimeout", unsaid, proxyFields.duration, 0, mostDuration},
	{"httpRequestTimeout", 300_000, proxyFields.duration, 0, mostDuration},
	{"httpRequestHeadersTimeout", unsaid, proxyFields.duration, 0, mostDuration},
	{"httpStreamIdleTimeout", 300_000, proxyFields.duration, 0, mostDuration},
	{"httpMaxStreamDuration", unsaid, proxyFields.duration, 1, mostDuration},
	{"httpMaxConcurrentStreams", 100, proxyFields.whole, 1, mostSaid},
	{"http2InitialStreamWindowSize", 64 << 10, proxyFields.whole, leastWindow, mostSaid},
	{"http2InitialConnectionWindowSize", 1 << 20, proxyFields.whole, leastWindow, mostSaid},
	{"httpHeadersWithUnderscoresAction", 2, enum(
		"HEADERS_WITH_UNDERSCORES_UNSPECIFIED", "HEADERS_WITH_UNDERSCORES_ALLOW", "HEADERS_WITH_UNDERSCORES_REJECT_REQUEST",
		"HEADERS_WITH_UNDERSCORES_DROP_HEADER",
	), 1, 3},
	{"httpMergeSlashes", 1, proxyFields.either, 0, 1},
	{"httpPathWithEscapedSlashesAction", 3, enum(
		"PATH_WITH_ESCAPED_SLASHES_UNSPECIFIED", "KEEP_UNCHANGED", "REJECT_REQUEST", "UNESCAPE_AND_REDIRECT", "UNESCAPE_AND_FORWARD",
	), 1, 4},
}

// connections reads them.
func (f proxyFields) connections() ConnectionSettings {
	if f.fields == nil {
		return ""
	}
	edge := enum("SIDECAR", "EDGE")(f, "profile", 0, 1) == 1
	var out strings.Builder
	for _, c := range connectionFields {
		n := c.read(f, c.name, c.least, c.most)
		if n == unsaid && edge {
			n = c.edge
		}
		if n != unsaid {
			out.WriteString("+" + c.name + "=" + strconv.FormatInt(n, 10))
		}
	}
	return ConnectionSettings(out.String())
}

// whole reads a whole number between two bounds.
func (f proxyFields) whole(name string, least, most int64) int64 {
	v := f.fields[name]
	if n, ok := v.(float64); ok && n >= float64(least) && n <= float64(most) && n == math.Trunc(n) {
		return int64(n)
	}
	if v != nil {
		f.wrong(name, "a whole number from "+strconv.FormatInt(least, 10)+" to "+strconv.FormatInt(most, 10))
	}
	return unsaid
}

// duration reads a text as "30s". Envoy's durations are whole milliseconds.
func (f proxyFields) duration(name string, least, most int64) int64 {
	v := f.fields[name]
	if v == nil {
		return unsaid
	}
	text, _ := v.(string)
	d, err := time.ParseDuration(text)
	if ms := d.Milliseconds(); err == nil && d >= 0 && ms >= least && ms <= most && d%time.Millisecond == 0 {
		return ms
	}
	f.wrong(name, `a duration as "30s", from `+(time.Duration(least)*time.Millisecond).String()+" to ten years, in whole milliseconds")
	return unsaid
}

// either reads true or false.
func (f proxyFields) either(name string, _, _ int64) int64 {
	switch {
	case f.fields[name] == nil:
		return unsaid
	case f.truth(name, false):
		return 1
	}
	return 0
}

// enum reads one of these names, or its number. An unknown one counts as not set, as for proxies of an older release.
func enum(names ...string) func(f proxyFields, name string, least, most int64) int64 {
	return func(f proxyFields, name string, least, most int64) int64 {
		n := int64(unsaid)
		switch v := f.fields[name].(type) {
		case nil:
			return unsaid
		case string:
			for i, known := range names {
				if v == known {
					n = int64(i)
				}
			}
		case float64:
			n = int64(max(unsaid, min(v, math.MaxInt32)))
		default:
			f.wrong(name, "one of "+strings.Join(names[least:], ", "))
		}
		if n < least || n > most {
			return unsaid
		}
		return n
	}
}
