#!/bin/sh
# Starts Redis with a user for each who connects, and no right for anybody else. Compose and Kubernetes
# mount it. Further words go to redis-server as they are.
#
#   REDIS_HUB_PASSWORD       of `hub`; empty: none, where nobody but the hub reaches this Redis
#   REDIS_MACHINES_PASSWORD  of `machines`, which all collectors may share; empty: there is no such user
#   REDIS_DATA               where data and users are kept; /data
#
# The hub adds a user of its own for each machine that joins. Those stand in the same file and stay; what
# is written here is written anew at each start, so that a changed password counts.
set -eu
umask 077
data=${REDIS_DATA:-/data}
users=$data/users.acl

word() { # word PASSWORD: as users.acl has it; only its hash is kept there
  case $1 in
    '') printf 'nopass' ;;
    *) printf '#%s' "$(printf %s "$1" | sha256sum | cut -d ' ' -f 1)" ;;
  esac
}

{
  echo "user default off nopass resetkeys resetchannels -@all"
  # For health checks: it may ask whether anybody is there, and nothing else.
  echo "user probe on nopass resetkeys resetchannels -@all +ping"
  # What hubs do with Redis, and the users of machines. CONFIG GET: for \`adsum doctor\`.
  echo "user hub on $(word "${REDIS_HUB_PASSWORD:-}") ~adsum:* resetchannels -@all" \
    "+@read +@write +@transaction +@connection +@scripting -@dangerous +info +time +config|get" \
    "+acl|setuser +acl|deluser +acl|getuser +acl|list +acl|users +acl|save +acl|whoami +acl|dryrun"
  if [ -n "${REDIS_MACHINES_PASSWORD:-}" ]; then
    echo "user machines on $(word "$REDIS_MACHINES_PASSWORD") resetchannels" \
      "-@all +ping +auth +hello +select +info (+sadd %W~adsum:hosts)" \
      "(+xadd %W~adsum:{*}:in %W~adsum:{*}:last) (+xgroup|create +xgroup|setid %W~adsum:{*}:in)" \
      "(+xinfo|groups %R~adsum:{*}:in) (+xinfo|stream %R~adsum:{*}:last) (+hmget %R~adsum:{*}:stored)" \
      "(+set %W~adsum:{*}:beat) (+get %R~adsum:{*}:beat %R~adsum:{*}:want)"
  fi
  if [ -f "$users" ]; then
    grep -vE '^user (default|probe|hub|machines) ' "$users" || true
  fi
} >"$users.draft"
mv "$users.draft" "$users"

# noeviction: a full Redis refuses batches, visibly, and collectors keep them; evicting would drop them.
# AOF: what a crash may take is the last second, which the collectors still hold and send again.
# proto-max-bulk-len, maxmemory-clients: hubs bound what machines keep here, this what they have on its way;
# the largest argument of ours has 8 MB.
# protected-mode: there is no user without a name, so that addresses need not be told apart.
exec redis-server --dir "$data" --aclfile "$users" \
  --appendonly yes --appendfsync everysec --maxmemory-policy noeviction \
  --proto-max-bulk-len 16mb --maxmemory-clients 50% --protected-mode no "$@"
