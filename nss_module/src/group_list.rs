//! The list of gids that glibc's initgroups gathers from all services.

use libc::{c_long, gid_t};
use privacyidea_contract::map::GroupsView;
use privacyidea_contract::names::is_usable_id;

use crate::fill::Refusal;

/// The list: ours are put behind what is there.
pub(crate) struct GroupList {
    /// The primary group, which the caller has put in.
    pub(crate) primary: gid_t,
    /// Number of gids in the list.
    pub(crate) used: *mut c_long,
    /// Number of gids for which there is room.
    pub(crate) size: *mut c_long,
    /// The list, from malloc(3).
    pub(crate) gids: *mut *mut gid_t,
    /// The most gids the list may have; none if not positive.
    pub(crate) limit: c_long,
}

impl GroupList {
    /// Puts the groups in, as many as the limit allows; ids that may not be believed are left out.
    pub(crate) fn append(&self, groups: GroupsView<'_>) -> Result<(), Refusal> {
        for gid in groups.gids().filter(|gid| is_usable_id(*gid) && *gid != self.primary) {
            // SAFETY: glibc passes three valid pointers.
            let used = unsafe { self.used.read() };
            // SAFETY: as above.
            let size = unsafe { self.size.read() };
            if self.limit > 0 && used >= self.limit {
                return Ok(());
            }
            let place = usize::try_from(used).map_err(|_| Refusal::Unusable)?;
            if used >= size {
                self.grow(used)?;
            }
            // SAFETY: as above.
            let list = unsafe { self.gids.read() };
            // SAFETY: the list has room for more than `used` gids.
            let free = unsafe { list.add(place) };
            // SAFETY: as above.
            unsafe { free.write(gid) };
            // SAFETY: as above.
            unsafe { self.used.write(used + 1) };
        }
        Ok(())
    }

    /// Doubles the room, within the limit, which is above `used`.
    #[cold]
    fn grow(&self, used: c_long) -> Result<(), Refusal> {
        let doubled = used.saturating_mul(2).max(16);
        let size = if self.limit > 0 { doubled.min(self.limit) } else { doubled };
        let bytes = usize::try_from(size).ok().and_then(|size| size.checked_mul(size_of::<gid_t>()));
        let bytes = bytes.ok_or(Refusal::NoMemory)?;
        // SAFETY: glibc passes three valid pointers.
        let list = unsafe { self.gids.read() };
        // SAFETY: the list came from malloc(3), as glibc's contract for this function says.
        let grown = unsafe { libc::realloc(list.cast(), bytes) };
        if grown.is_null() {
            return Err(Refusal::NoMemory);
        }
        // SAFETY: as above; the old pointer is void now.
        unsafe { self.gids.write(grown.cast()) };
        // SAFETY: as above.
        unsafe { self.size.write(size) };
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list_after(limit: c_long, room: c_long, before: &[gid_t], groups: &[u32]) -> Vec<gid_t> {
        let bytes: Vec<u8> = groups.iter().flat_map(|gid| gid.to_ne_bytes()).collect();
        let mut used = before.len() as c_long;
        let mut size = room;
        // SAFETY: malloc has no preconditions.
        let mut gids: *mut gid_t = unsafe { libc::malloc(room as usize * size_of::<gid_t>()) }.cast();
        // SAFETY: the room is at least as large as what is put in.
        unsafe { std::ptr::copy_nonoverlapping(before.as_ptr(), gids, before.len()) };
        let list =
            GroupList { primary: 5000, used: &raw mut used, size: &raw mut size, gids: &raw mut gids, limit };
        list.append(GroupsView::new(&bytes)).unwrap();
        assert!(used <= size);
        // SAFETY: the list holds `used` gids.
        let result = unsafe { std::slice::from_raw_parts(gids, used as usize) }.to_vec();
        // SAFETY: from malloc or realloc.
        unsafe { libc::free(gids.cast()) };
        result
    }

    #[test]
    fn groups_are_appended_within_the_limit() {
        assert_eq!(list_after(-1, 1, &[5000], &[5000, 5001, 0, 999, 65534, 5002]), [5000, 5001, 5002]);
        assert_eq!(list_after(2, 1, &[5000], &[5001, 5002]), [5000, 5001]);
        assert_eq!(
            list_after(3, 4, &[1, 2, 3, 4], &[5001]),
            [1, 2, 3, 4],
            "more than the limit to begin with"
        );
        let many: Vec<u32> = (6000..7000).collect();
        assert_eq!(list_after(0, 1, &[], &many), many);
    }
}
