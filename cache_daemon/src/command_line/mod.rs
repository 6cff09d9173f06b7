//! `privacyidea-host`: what an administrator types.
