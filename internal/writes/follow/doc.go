// Package follow lists and watches one kind of object in a cluster until ctx ends. It keeps a part of each object by name and reports
// each change. It does not know the use of the objects.
package follow
