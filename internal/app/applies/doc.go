// Package applies finds for which connected proxies objects make a difference, and why others make none: each is taken away in a trial
// turn that is not kept.
package applies
