package identity

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/berth-dev/berth/pkg/tenancy"
)

const (
	// UserInfoAnnotation is the submitter of a Placement, as JSON: {"user": …, "username": …,
	// "groups": […]}.
	UserInfoAnnotation = "yunikorn.apache.org/user.info"
	// UserLabelEnv names the environment variable that holds the key of the label that names a
	// user; DefaultUserLabel where it is unset.
	UserLabelEnv = "USER_LABEL_KEY"
	// DefaultUserLabel is the key of the label that names a user, if clients are trusted to set it.
	DefaultUserLabel = "yunikorn.apache.org/username"
	// Nobody is the user of a Placement without an identity.
	Nobody = "nobody"
)

// Identity is a user and the user's groups. Groups is nil if a GroupResolver must look them up; an
// empty list means no groups.
type Identity struct {
	User   string
	Groups []string
}

// Parse parses the value of the user.info annotation. The name is the string under "user" or
// "username"; if both exist, they must be equal. "groups" is a list of strings; absent or null if
// the groups are unknown. Other keys are ignored. It returns an error if the text is no JSON
// object, has a key twice, or has no name or an empty one.
func Parse(text string) (Identity, error) {
	fields, err := identityFields(text)
	if err != nil {
		return Identity{}, err
	}
	identity := Identity{}
	for _, key := range []string{"user", "username"} {
		raw, ok := fields[key]
		if !ok {
			continue
		}
		var name *string
		if err := json.Unmarshal(raw, &name); err != nil || name == nil {
			return Identity{}, fmt.Errorf("%q is not a string", key)
		}
		if *name == "" {
			return Identity{}, fmt.Errorf("%q is empty", key)
		}
		if identity.User != "" && identity.User != *name {
			return Identity{}, errors.New(tenancy.Messagef("user %q and username %q differ", identity.User, *name))
		}
		identity.User = *name
	}
	if identity.User == "" {
		return Identity{}, errors.New(`"user" or "username" is required`)
	}
	if raw, ok := fields["groups"]; ok {
		var names []*string
		if err := json.Unmarshal(raw, &names); err != nil {
			return Identity{}, errors.New(`"groups" is not a list of strings`)
		}
		if names != nil {
			identity.Groups = make([]string, 0, len(names))
		}
		for _, name := range names {
			if name == nil {
				return Identity{}, errors.New(`"groups" is not a list of strings`)
			}
			identity.Groups = append(identity.Groups, *name)
		}
	}
	return identity, nil
}

// identityFields decodes the object key by key, because encoding/json would accept "USER" for
// "user", and the last of two values.
func identityFields(text string) (map[string]json.RawMessage, error) {
	decoder := json.NewDecoder(bytes.NewReader([]byte(text)))
	token, err := decoder.Token()
	if err != nil {
		return nil, errors.New("not a JSON object")
	}
	if token != json.Delim('{') {
		return nil, errors.New("not a JSON object")
	}
	fields := map[string]json.RawMessage{}
	for decoder.More() {
		token, err := decoder.Token()
		if err != nil {
			return nil, fmt.Errorf("not JSON: %w", err)
		}
		key, _ := token.(string) // the decoder accepts nothing else here
		var value json.RawMessage
		if err := decoder.Decode(&value); err != nil {
			return nil, fmt.Errorf("not JSON: %w", err)
		}
		if _, twice := fields[key]; twice {
			return nil, errors.New(tenancy.Messagef("key %q is set twice", key))
		}
		fields[key] = value
	}
	if _, err := decoder.Token(); err != nil {
		return nil, fmt.Errorf("not JSON: %w", err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("unexpected text after the JSON object")
	}
	return fields, nil
}

// String returns the value of the user.info annotation. It is deterministic, contains the user
// under both keys, because readers know only one of them, and always contains the groups.
func (i Identity) String() string {
	groups := i.Groups
	if groups == nil {
		groups = []string{}
	}
	text, err := json.Marshal(struct {
		User     string   `json:"user"`
		Username string   `json:"username"`
		Groups   []string `json:"groups"`
	}{i.User, i.User, groups})
	if err != nil {
		panic(err) // strings always encode
	}
	return string(text)
}

// Read returns the submitter of a Placement: from the user.info annotation, else from the label
// userLabel (empty: DefaultUserLabel), else Nobody. If Parse refuses the annotation, Read returns
// an error: the submitter is then unknown, not Nobody.
func Read(annotations, labels map[string]string, userLabel string) (Identity, error) {
	if text, ok := annotations[UserInfoAnnotation]; ok {
		identity, err := Parse(text)
		if err != nil {
			return Identity{}, fmt.Errorf("annotation %s: %w", UserInfoAnnotation, err)
		}
		return identity, nil
	}
	if user := labels[cmp.Or(userLabel, DefaultUserLabel)]; user != "" {
		return Identity{User: user}, nil
	}
	return Identity{User: Nobody}, nil
}
