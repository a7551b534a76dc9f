package config

import (
	"google.golang.org/protobuf/proto"

	"fairway/internal/config/message"
	"fairway/internal/config/report"
)

// judgeRest reports the other mistakes of a document that has errors already, so that one edit mends all. The message is never used.
func (w *draft) judgeRest(tree map[string]any, at report.Path, empty func() proto.Message, check func(*draft, proto.Message)) {
	w.Rest(func(set bool, r *report.Report) {
		trial, rest := *w, message.Absent
		if set {
			rest = message.Present
		}
		trial.Report = *r
		spec := empty()
		message.FillRest(spec.ProtoReflect(), tree, at, rest, &trial.Report)
		check(&trial, spec)
		*r = trial.Report
	})
}
