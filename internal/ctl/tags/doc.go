// Package tags has pilotctl's verb tag: names of revisions that namespaces may have in their label, as MutatingWebhookConfigurations that
// the chart makes. It must not know what an injector answers. Start reading in command.go.
package tags
